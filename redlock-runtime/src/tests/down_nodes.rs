//! Nodes that are down: who is asked, who is waited for, and what is left on them.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::fake::{Fake, Fate, SECOND, fake};
use super::quorum::{held, nodes, on, quorum};
use super::restart_guard::{client as guarded, group};
use super::step::claim;
use crate::backend::{Cause, Fault, Found, LockBackend, Member, MemorySince, NodeAdmission};
use crate::client::Redlock;
use crate::clock::Clock;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::kind::Kind;
use crate::options::Wait;

const MILLI: Duration = Duration::from_millis(1);
const EXPIRE: Duration = Duration::from_secs(10);
const DOWN: Fate = Fate::Refused(NodeErrorKind::Unreachable, false);

/// Takes another lock for a moment, and so gets to know which nodes are down.
async fn touch(redlock: &Redlock) {
    let guard = redlock.lock("other").expire(EXPIRE).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// How often these words stood at the beginning of what came to a node.
fn count(log: &[String], command: &str) -> usize {
    log.iter().filter(|line| line.starts_with(command)).count()
}

fn is_held(node: &Fake) -> bool {
    node.store.owner("k").is_some()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_is_not_waited_for_while_the_others_are_enough() {
    let nodes = nodes(3);
    nodes[2].always(Some(Fate::LostRequest));
    let _guard = on(&nodes).lock("k").expire(EXPIRE).acquire().await.unwrap();
    let redlock = on(&nodes);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    // One node grants, one refuses: only the third could make a quorum.
    nodes[1].store.remove("k");
    for _ in ["asked whether it is back", "asked a moment ago"] {
        let start = Instant::now();
        assert!(redlock.lock("k").try_acquire().await.unwrap().is_none());
        // It asks some more times, as the vote is split.
        assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
    }
}

/// Nothing is decided before the last one has answered, but a node that is down is not one of them.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_confirmed_without_the_nodes_that_are_down() {
    let nodes = nodes(3);
    nodes[2].always(Some(Fate::LostRequest));
    let guard = on(&nodes).lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(6_660 * MILLI).await;
    assert_eq!((guard.renewals(), count(&nodes[2].take_log(), "renew")), (0, 0));
    tokio::time::sleep(10 * MILLI).await;
    assert_eq!((guard.renewals(), count(&nodes[2].take_log(), "renew")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_is_waited_for_when_the_others_are_not_enough() {
    let nodes = nodes(3);
    nodes[1].always(Some(DOWN));
    nodes[2].always(Some(DOWN));
    let redlock = on(&nodes);
    assert!(redlock.lock("k").wait(Wait::Never).acquire().await.is_err());
    nodes[2].always(None);
    nodes[2].next_acquires([Fate::Slow(10 * MILLI)]);
    assert!(redlock.lock("k").wait(Wait::Never).acquire().await.is_ok());
}

/// One node went down and came back unnoticed, and then another one did not come back.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_is_waited_for_when_one_that_was_up_is_down() {
    let nodes = nodes(3);
    nodes[2].always(Some(DOWN));
    let redlock = on(&nodes);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    nodes[2].always(Some(Fate::Slow(10 * MILLI)));
    nodes[1].always(Some(DOWN));
    let guard = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
    assert!(is_held(&nodes[2]));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_is_asked_ten_times_a_second_at_most() {
    let nodes = nodes(3);
    nodes[2].always(Some(DOWN));
    let redlock = on(&nodes);
    let mut held = Vec::new();
    let mut is_asked = async |after: Duration| {
        tokio::time::sleep(after).await;
        let key = format!("k{}", held.len());
        held.push(redlock.lock(&key).expire(EXPIRE).acquire().await.unwrap());
        count(&nodes[2].take_log(), "acquire")
    };
    assert_eq!(is_asked(SECOND).await, 1, "it was never asked before");
    assert_eq!(is_asked(Duration::ZERO).await, 0);
    assert_eq!(is_asked(99 * MILLI).await, 0);
    assert_eq!(is_asked(MILLI).await, 1);
    // While the answer is awaited it is not asked either.
    nodes[2].always(Some(Fate::LostRequest));
    assert_eq!(is_asked(200 * MILLI).await, 1);
    assert_eq!(is_asked(99 * MILLI).await, 0);
    assert_eq!(is_asked(MILLI).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_with_an_error_is_not_down() {
    let nodes = nodes(3);
    nodes[2].always(Some(Fate::Refused(NodeErrorKind::Loading, false)));
    let redlock = on(&nodes);
    for _ in 0..3 {
        touch(&redlock).await;
    }
    assert_eq!(count(&nodes[2].take_log(), "acquire"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_also_goes_to_a_node_that_was_down_a_moment_ago() {
    let nodes = nodes(3);
    nodes[2].next_acquires([Fate::LostReply]);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(EXPIRE / 20 + MILLI).await;
    assert!(is_held(&nodes[2]));
    guard.release().await.unwrap();
    tokio::time::sleep(MILLI).await;
    assert!(!is_held(&nodes[2]));
}

/// Its vote would be missing to others for the rest of the lease.
#[tokio::test(start_paused = true)]
async fn a_release_that_failed_on_one_node_is_tried_there_until_it_is_answered() {
    for (outage, most) in [(300 * MILLI, 40), (4 * SECOND, 40), (600 * SECOND, 620)] {
        let nodes = nodes(3);
        let redlock = on(&nodes);
        let guard = redlock.lock("k").expire(3600 * SECOND).acquire().await.unwrap();
        nodes[2].take_log();
        nodes[2].always(Some(DOWN));
        guard.release().await.unwrap();
        tokio::time::sleep(outage).await;
        let tries = count(&nodes[2].take_log(), "release");
        assert!((2..most).contains(&tries), "{tries} in {outage:?}");
        assert!(is_held(&nodes[2]));
        nodes[2].always(None);
        tokio::time::sleep(2 * SECOND).await;
        assert!(!is_held(&nodes[2]), "{outage:?}");
        // It is not tried once more after that.
        nodes[2].take_log();
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(count(&nodes[2].take_log(), "release"), 0);
    }
}

/// They would keep a node busy that comes back.
#[tokio::test(start_paused = true)]
async fn many_releases_that_failed_ask_a_node_no_more_often_than_calls_do() {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let mut held = Vec::new();
    for number in 0..100 {
        let key = format!("k{number}");
        held.push(redlock.lock(&key).expire(60 * SECOND).acquire().await.unwrap());
    }
    nodes[2].always(Some(DOWN));
    for guard in held {
        guard.release().await.unwrap();
    }
    nodes[2].take_log();
    tokio::time::sleep(10 * SECOND).await;
    let tries = count(&nodes[2].take_log(), "release");
    assert!((20..=101).contains(&tries), "{tries}");
    nodes[2].always(None);
    tokio::time::sleep(3 * SECOND).await;
    let left = (0..100).filter(|number| nodes[2].store.owner(&format!("k{number}")).is_some());
    assert_eq!(left.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_on_one_node_is_not_tried_for_a_client_that_has_gone() {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(60 * SECOND).acquire().await.unwrap();
    nodes[2].always(Some(DOWN));
    guard.release().await.unwrap();
    drop(redlock);
    tokio::time::sleep(10 * SECOND).await;
    assert!(count(&nodes[2].take_log(), "release") > 1, "not for a moment either");
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(count(&nodes[2].take_log(), "release"), 0);
}

/// A node that was down all the time does not have the lock.
#[tokio::test(start_paused = true)]
async fn a_node_that_refused_to_be_asked_is_released_once() {
    let nodes = nodes(3);
    nodes[2].always(Some(DOWN));
    let redlock = on(&nodes);
    touch(&redlock).await;
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    nodes[2].take_log();
    guard.release().await.unwrap();
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(count(&nodes[2].take_log(), "release"), 1);
}

/// It may take the lock for an owner that has released.
#[tokio::test(start_paused = true)]
async fn a_node_on_which_an_acquire_may_still_land_is_released_again() {
    let nodes = nodes(3);
    nodes[2].next_acquires([Fate::LostRequest]);
    let guard = on(&nodes).lock("k").expire(EXPIRE).acquire().await.unwrap();
    let owner = guard.owner().to_owned();
    // The node gave no answer by now.
    tokio::time::sleep(SECOND).await;
    guard.release().await.unwrap();
    nodes[2].store.set("k", &owner, EXPIRE);
    tokio::time::sleep(SECOND + MILLI).await;
    assert!(!is_held(&nodes[2]));
}

#[tokio::test(start_paused = true)]
async fn a_release_is_not_tried_again_when_the_lease_is_over() {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(SECOND).acquire().await.unwrap();
    nodes[2].always(Some(DOWN));
    guard.release().await.unwrap();
    // The lease may last a little longer on the node.
    tokio::time::sleep(2 * SECOND).await;
    assert!(count(&nodes[2].take_log(), "release") > 1);
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(count(&nodes[2].take_log(), "release"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_makes_a_node_one_of_those_that_are_up() {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    nodes[2].always(Some(DOWN));
    touch(&redlock).await;
    nodes[2].always(None);
    nodes[2].take_log();
    tokio::time::sleep(SECOND).await;
    for _ in 0..3 {
        touch(&redlock).await;
        assert_eq!(count(&nodes[2].take_log(), "acquire"), 1);
    }
}

/// The restart guard objects without a word from the node.
#[tokio::test(start_paused = true)]
async fn a_silent_node_without_a_vote_stays_down_until_it_answers() {
    let nodes = group(3).await;
    let redlock = guarded(&nodes);
    touch(&redlock).await;
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    let cause = Cause::Restarted;
    let since = Clock::Tokio.now();
    nodes[2].recalls(MemorySince::new("run2b".into(), since, cause));
    nodes[2].always(Some(Fate::LostRequest));
    // The answer of the node to this release does not come.
    touch(&redlock).await;
    tokio::time::sleep(6_660 * MILLI).await;
    touch(&redlock).await;
    // The renewal at two thirds of the lease does not wait for the node.
    tokio::time::sleep(10 * MILLI).await;
    assert_eq!(guard.renewals(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_objection_leaves_it_to_the_next_command_whether_a_node_is_back() {
    let member = Member::new(2, Fake::new("c"));
    let answer = |kind| {
        let nodes = vec![NodeError::new("c", kind, "why")];
        Err::<(), _>(Fault::known(nodes))
    };
    member.note(&answer(NodeErrorKind::NoReply));
    assert!(matches!(member.admit(), NodeAdmission::Skip(_)));
    for objection in [NodeErrorKind::Quarantined, NodeErrorKind::Duplicate] {
        member.note(&answer(objection));
        assert!(matches!(member.admit(), NodeAdmission::Probe(_)));
        assert!(matches!(member.admit(), NodeAdmission::Skip(_)));
    }
    member.note(&answer(NodeErrorKind::Loading));
    assert!(matches!(member.admit(), NodeAdmission::Ask));
    member.note(&answer(NodeErrorKind::Quarantined));
    assert!(matches!(member.admit(), NodeAdmission::Ask));
}

/// An error without a server and a cause would say nothing.
#[tokio::test(start_paused = true)]
async fn servers_that_are_known_and_fall_silent_are_named() {
    let nodes = group(3).await;
    let redlock = guarded(&nodes);
    assert!(redlock.health().await.is_available());
    nodes[1].always(Some(Fate::LostRequest));
    nodes[2].always(Some(Fate::LostRequest));
    let error = redlock.lock("k").expire(EXPIRE).wait(Wait::Never).acquire().await.unwrap_err();
    let LockError::Unavailable { nodes: errors, .. } = error else {
        panic!("a minority has granted a lock")
    };
    let named: Vec<_> = errors.iter().map(|error| (error.node(), error.kind())).collect();
    assert_eq!(named, [("b", NodeErrorKind::NoReply), ("c", NodeErrorKind::NoReply)]);
}

/// A refusal is certain before the last node has answered, which may still grant the lock: without
/// its answer each refusal would be followed by releases of an owner that has nothing.
#[tokio::test(start_paused = true)]
async fn a_refusal_by_nodes_that_are_well_leaves_nothing_to_clean_up() {
    for (answers_after, releases) in [(8 * MILLI, 0), (30 * MILLI, 4)] {
        let nodes = nodes(3);
        let _guard = on(&nodes).lock("k").expire(EXPIRE).acquire().await.unwrap();
        tokio::time::sleep(SECOND).await;
        for node in &nodes {
            node.take_log();
        }
        nodes[2].next_acquires([Fate::Late(answers_after)]);
        let other = on(&nodes);
        assert!(other.lock("k").try_acquire().await.unwrap().is_none());
        tokio::time::sleep(5 * SECOND).await;
        for node in &nodes {
            let log = node.take_log();
            assert_eq!((count(&log, "acquire"), count(&log, "release")), (1, releases), "{log:?}");
        }
    }
}

/// They have answered, so that no outage is told: nothing else says what is wrong.
#[tokio::test(start_paused = true)]
async fn nodes_that_refuse_a_renewal_are_named() {
    let (nodes, claim) = (nodes(3), claim(Kind::Exclusive, EXPIRE));
    let quorum = quorum(&nodes, None, Duration::ZERO);
    quorum.acquire(&claim, SECOND).await.unwrap();
    for node in &nodes[..2] {
        node.next_renews([Fate::Refused(NodeErrorKind::NoPermission, true)]);
    }
    let fault = quorum.renew(std::slice::from_ref(&claim), SECOND).await.unwrap_err();
    let named: Vec<_> = fault.nodes.iter().map(|error| (error.node(), error.kind())).collect();
    assert_eq!(named, [("a", NodeErrorKind::NoPermission), ("b", NodeErrorKind::NoPermission)]);
    let found = quorum.renew(&[claim], SECOND).await;
    assert_eq!(found, Ok(vec![Some(Found::Ours)]));
}

/// A call that fails frees on all servers what it has on some.
#[tokio::test(start_paused = true)]
async fn a_failed_call_is_not_cleaned_up_where_that_is_refused_for_good() {
    let nodes = nodes(5);
    let redlock = on(&nodes);
    for node in &nodes[..3] {
        node.always(Some(Fate::Refused(NodeErrorKind::NoPermission, true)));
    }
    redlock.lock("k").expire(60 * SECOND).acquire().await.unwrap_err();
    assert_eq!(timeout(SECOND, redlock.shutdown(60 * SECOND)).await, Ok(0));
    assert_eq!(held(&nodes, "k"), 0);
}

/// As when a password is changed: what a clean-up may not do now, it may do later.
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_was_refused_is_made_when_it_is_allowed_again() {
    let (redlock, node) = fake();
    node.next_acquires([Fate::LostReply]);
    node.always(Some(Fate::Refused(NodeErrorKind::Authentication, true)));
    redlock.lock("k").expire(600 * SECOND).wait(Wait::Never).acquire().await.unwrap_err();
    sleep(10 * SECOND).await;
    let nodes = [node];
    assert_eq!(held(&nodes, "k"), 1);
    nodes[0].always(None);
    sleep(10 * SECOND).await;
    assert_eq!(held(&nodes, "k"), 0);
}
