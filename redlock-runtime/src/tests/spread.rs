//! How a client keeps the list of founders on the nodes while it uses them.

use std::sync::Arc;
use std::time::Duration;

use super::enrolment::{MILLI, Newcomer, group_with_dates};
use super::fake::{Fake, Fate, SECOND};
use super::quorum::with_guard;
use super::restart_guard::{DOWN, EXPIRE, attempt, client, group, now, started, touch};
use crate::backend::{Cause, MemorySince, RestartGuard};
use crate::clock::Clock;
use crate::validity::drift;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For which process a node was offered a list last, and how long that was to live.
fn offered(node: &Fake) -> Option<(Option<String>, Duration)> {
    let offer = node.state().offered.take()?;
    Some((offer.run_id.map(|run_id| run_id.to_string()), offer.life))
}

/// For how long a list lives that a client writes with leases of this length.
fn life(lease: Duration) -> Duration {
    2 * DAY + lease + drift(lease)
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_just_written_is_not_written_again() {
    let nodes = group(3).await;
    let newcomer = Newcomer::new(&nodes);
    newcomer.enroll().await.unwrap();
    assert!(nodes[1].take_founders().is_some());
    for _ in 0..3 {
        newcomer.guard.spread(&newcomer.members[1], SECOND);
        tokio::time::sleep(SECOND).await;
        assert_eq!(nodes[1].founders(), None);
    }
}

/// Its vote is not due any more.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_late_is_given_the_list_once() {
    let nodes = group(3).await;
    nodes[2].always(Some(DOWN));
    let redlock = client(&nodes);
    touch(&redlock).await;
    tokio::time::sleep(2 * EXPIRE).await;
    nodes[2].always(None);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    assert!(nodes[2].take_founders().is_some());
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(nodes[2].founders(), None);
}

/// A node that refuses is not asked by each call.
#[tokio::test(start_paused = true)]
async fn a_list_that_could_not_be_written_waits_a_second() {
    let nodes = group(3).await;
    nodes[1].always(Some(DOWN));
    let newcomer = Newcomer::new(&nodes);
    newcomer.enroll().await.unwrap();
    let spread = async || {
        newcomer.guard.spread(&newcomer.members[1], SECOND);
        tokio::time::sleep(MILLI).await;
        nodes[1].founders()
    };
    assert_eq!(spread().await, None);
    nodes[1].always(None);
    assert_eq!(spread().await, None);
    tokio::time::sleep(SECOND).await;
    assert!(spread().await.is_some());
}

/// On another process it would be false evidence. A group whose list ends before a lease would look
/// new.
#[tokio::test(start_paused = true)]
async fn a_list_is_for_the_process_that_was_met_and_outlives_every_lease() {
    let nodes = group(3).await;
    let newcomer = Newcomer::new(&nodes);
    newcomer.enroll().await.unwrap();
    assert_eq!(offered(&nodes[1]), Some((Some("run1".to_owned()), life(EXPIRE))));
    let spread = async |lease| {
        newcomer.guard.expect(lease);
        newcomer.guard.spread(&newcomer.members[1], SECOND);
        tokio::time::sleep(MILLI).await;
        offered(&nodes[1])
    };
    assert_eq!(spread(2 * EXPIRE).await, None, "the list outlives this one");
    for days in [5, 8] {
        let (run_id, lease) = (Some("run1".to_owned()), days * DAY);
        assert_eq!(spread(lease).await, Some((run_id, life(lease))), "{days} days");
    }
    assert_eq!(spread(EXPIRE).await, None);
}

/// Nodes on which a client with leases of a week has left the list.
async fn group_with_long_leases() -> Vec<Arc<Fake>> {
    let nodes = group(3).await;
    let patient = Newcomer::new(&nodes);
    patient.enroll().await.unwrap();
    patient.guard.expect(7 * DAY);
    for member in &patient.members {
        patient.guard.spread(member, SECOND);
    }
    tokio::time::sleep(MILLI).await;
    nodes
}

/// The group would look new otherwise, and a node that came back empty would vote at once.
#[tokio::test(start_paused = true)]
async fn clients_with_short_leases_do_not_shorten_the_life_of_a_list() {
    let nodes = group_with_long_leases().await;
    let newcomer = Newcomer::new(&nodes);
    newcomer.enroll().await.unwrap();
    tokio::time::sleep(DAY).await;
    for member in &newcomer.members {
        newcomer.guard.spread(member, SECOND);
    }
    tokio::time::sleep(6 * DAY).await;
    nodes[1].take_founders();
    started(&nodes[1], "run1b", Duration::ZERO);
    let later = Newcomer::new(&nodes);
    later.enroll().await.unwrap();
    assert_eq!(later.votes(), [true, false, true]);
}

/// Nobody has read for how long it lives.
#[tokio::test(start_paused = true)]
async fn a_list_that_could_not_be_read_at_first_is_not_shortened() {
    let nodes = group_with_long_leases().await;
    for node in &nodes[..2] {
        node.take_founders();
    }
    nodes[2].state().offered = None;
    let before = nodes[2].state().founders_end;
    let newcomer = Newcomer::new(&nodes);
    nodes[2].always(Some(Fate::LostRequest));
    let silent = Arc::clone(&nodes[2]);
    let answers_again = || {
        tokio::spawn(async move {
            tokio::time::sleep(SECOND * 2 / 5).await;
            silent.always(None);
        });
    };
    assert!(newcomer.enroll_while(&nodes[0], answers_again).await);
    assert!(nodes[2].state().offered.is_some());
    assert_eq!(nodes[2].state().founders_end, before);
}

/// Its life is too short for the leases of the other one, which prolongs it with its first call.
#[tokio::test(start_paused = true)]
async fn the_list_of_a_client_that_was_faster_is_prolonged() {
    let nodes = group(3).await;
    let newcomer = Newcomer::new(&nodes);
    newcomer.guard.expect(7 * DAY);
    let leave = || {
        let end = Some(now().plus(life(EXPIRE)));
        let mut state = nodes[1].state();
        (state.founders, state.founders_end) = (Some("run0 run1 run2".to_owned()), end);
    };
    assert!(newcomer.enroll_while(&nodes[0], leave).await);
    newcomer.guard.spread(&newcomer.members[1], SECOND);
    tokio::time::sleep(MILLI).await;
    assert!(nodes[1].state().founders_end >= Some(now().plus(8 * DAY)));
}

/// The client could not reach it at first.
#[tokio::test(start_paused = true)]
async fn the_dates_on_a_node_that_is_met_late_are_believed() {
    let nodes = group_with_dates().await;
    nodes[1].state().memory_since = None;
    nodes[1].always(Some(DOWN));
    let redlock = client(&nodes);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    nodes[1].always(None);
    started(&nodes[1], "run1b", Duration::ZERO);
    touch(&redlock).await;
    tokio::time::sleep(MILLI).await;
    nodes[2].always(Some(DOWN));
    assert!(attempt(&redlock).await.is_ok());
}

/// A setting is only what the first call may want.
#[tokio::test(start_paused = true)]
async fn the_usual_lease_of_a_client_counts_until_a_call_has_shown_another_one() {
    let nodes = group(3).await;
    let guard = RestartGuard::new(Clock::Tokio, "founders".into(), Duration::ZERO, 6 * EXPIRE);
    let redlock = with_guard(&nodes, Some(guard));
    touch(&redlock).await;
    nodes[0].always(Some(DOWN));
    nodes[1].recalls(MemorySince::new("run1b".into(), now(), Cause::Restarted));
    tokio::time::sleep(EXPIRE + SECOND).await;
    assert!(attempt(&redlock).await.is_ok());
}

/// Nobody has seen whether its clock jumped before that.
#[tokio::test(start_paused = true)]
async fn a_grant_by_a_clock_that_was_not_told_does_not_outlast_a_jump() {
    let nodes = group(3).await;
    nodes[1].clock_offset(None);
    let redlock = client(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    nodes[1].clock_offset(0);
    nodes[1].doubted(now(), Cause::ClockJumped(60_000));
    nodes[2].always(Some(DOWN));
    tokio::time::sleep(EXPIRE).await;
    assert!(guard.check().is_err());
}
