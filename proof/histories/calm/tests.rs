//! Plans of histories without faults.

use super::*;

#[test]
fn a_seed_is_a_plan() {
    for seed in 0..200 {
        let calm = Calm::of(seed, None);
        assert_eq!(format!("{calm:?}"), format!("{:?}", Calm::of(seed, None)));
        assert!(!calm.pause_us.is_empty() && !calm.hold_us.is_empty(), "{calm:?}");
        assert!(!calm.wait_ms.is_empty(), "{calm:?}");
        assert!((SLACK_MS..2_000).contains(&calm.bound_ms()), "{calm:?}");
        let strikes = calm.scene == Scene::Deletions || calm.scene.kills();
        assert_eq!(strikes, !calm.strikes.is_empty(), "{calm:?}");
    }
    let other = Calm::of(3, Some(Topology::Five));
    assert_eq!(other.topology, Topology::Five);
    let permits = Calm::of(Scene::Permits as u64, Some(Topology::Five));
    assert_eq!(permits.topology, Topology::One);
}

#[test]
fn each_scene_begins_with_its_plainest_case() {
    let plain = |scene: Scene| Calm::of(scene as u64, None);
    for scene in Scene::ALL {
        assert_eq!((plain(scene).scene, plain(scene).topology), (scene, Topology::One));
    }
    assert_eq!(plain(Scene::Pauses).to_string(), "Pauses of u u, 8 callers each, 4 keys");
    assert_eq!(plain(Scene::Pools).to_string(), "Pools of p u, 2 callers each, 1 keys");
    assert_eq!(plain(Scene::Stalls).to_string(), "Stalls of u, 3 callers each, 1 keys");
}

#[test]
fn the_bound_depends_on_who_is_told_and_on_what_happens() {
    let bound = |seed, topology| Calm::of(seed, Some(topology)).bound_ms();
    assert_eq!(bound(Scene::Pauses as u64, Topology::One), 400);
    assert_eq!(bound(Scene::Pauses as u64, Topology::Three), 500);
    assert_eq!(bound(Scene::Pools as u64, Topology::One), 500);
    assert_eq!(bound(Scene::Losses as u64, Topology::One), 450);
    assert_eq!(bound(Scene::Deletions as u64, Topology::Replicated), 1_450);
    assert_eq!(bound(Scene::Deaths as u64, Topology::One), 1_550);
    assert_eq!(bound(Scene::Readers as u64, Topology::One), 400);
    assert_eq!(bound(Scene::Groups as u64, Topology::Cluster), 400);
    assert_eq!(bound(Scene::DeadGroups as u64, Topology::One), 1_550);
    let queue = |topology| Calm::of(Scene::Readers as u64, Some(topology)).queue_ms();
    assert_eq!((queue(Topology::One), queue(Topology::Three)), (Some(400), None));
}

#[test]
fn a_history_of_groups_has_all_orders_and_overlaps() {
    let calm = Calm::of(Scene::Groups as u64, None);
    let mut rng = Rng::with_seed(1);
    let mut wanted: Vec<_> =
        (0..1_000).map(|n| calm.wanted(1 + n % calm.callers, &mut rng)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    // Three keys alone, six pairs and six triples in some order.
    assert_eq!(wanted.len(), 15, "{wanted:?}");
    let plain = Calm::of(Scene::Pauses as u64, None);
    assert_eq!(plain.wanted(6, &mut rng), [2]);
}

#[test]
fn leases_are_lost_where_something_ends_them() {
    use Scene::{Cancellations, DeadGroups, DeadPermits, Deaths, Deletions, Losses, Stalls};
    let keeps = |scene: Scene| Calm::of(scene as u64, None).loses_nothing();
    let some: Vec<_> = Scene::ALL.into_iter().filter(|scene| !keeps(*scene)).collect();
    let lose = [Stalls, Losses, Deletions, Cancellations, Deaths, DeadPermits, DeadGroups];
    assert_eq!(some, lose);
}

#[test]
fn all_doors_and_loads_come_up() {
    let calms: Vec<_> = (0..200).map(|seed| Calm::of(seed, None)).collect();
    let has = |what: &dyn Fn(&Calm) -> bool| calms.iter().any(what);
    assert!(has(&|calm| calm.processes.concat().iter().all(|door| *door == Door::Pool)));
    assert!(has(&|calm| calm.processes.iter().any(|doors| doors.len() == 2)));
    assert!(has(&|calm| calm.pause_us.start < 300));
    assert!(has(&|calm| calm.pause_us.end > 1_000_000));
    assert!(has(&|calm| calm.scene == Scene::Arrivals && calm.percent < 20));
    assert!(has(&|calm| calm.scene == Scene::Arrivals && calm.percent > 80));
}

#[test]
fn calls_may_fail_for_what_happens_in_their_scene() {
    let reasons = |scene: Scene| Calm::of(scene as u64, None).reasons().join(" ");
    assert_eq!(reasons(Scene::Pauses), "Timeout");
    assert_eq!(reasons(Scene::Groups), "Timeout Dropped");
    assert_eq!(reasons(Scene::Stalls), "Timeout Lost");
    assert_eq!(reasons(Scene::Deletions), "Timeout Lost");
    assert_eq!(reasons(Scene::Losses), "Timeout Lost ExpireTooShort");
    assert_eq!(reasons(Scene::Cancellations), "Timeout Dropped Lost ExpireTooShort");
}
