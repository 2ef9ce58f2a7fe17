//! Nodes that may have forgotten leases.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, Fate, SECOND};
use super::quorum::{nodes, with_guard};
use crate::backend::{Cause, Member, MemorySince, QuorumMember, RestartGuard};
use crate::client::Redlock;
use crate::clock::{Clock, Moment};
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

pub(super) const EXPIRE: Duration = Duration::from_secs(10);
pub(super) const DOWN: Fate = Fate::Refused(NodeErrorKind::Unreachable, false);
/// Longer than an old node is young.
const DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

/// A client of its own, as another process would be.
pub(super) fn client(nodes: &[Arc<Fake>]) -> Redlock {
    let none = Duration::ZERO;
    with_guard(nodes, Some(RestartGuard::new(Clock::Tokio, "founders".into(), none, none)))
}

pub(super) fn started(node: &Fake, run_id: &str, ago: Duration) {
    let since = now().minus(ago);
    node.recalls(MemorySince::new(run_id.into(), since, Cause::Started));
}

pub(super) fn now() -> Moment {
    Clock::Tokio.now()
}

/// Nodes that began together, and a clock that has run for days.
pub(super) async fn group(count: usize) -> Vec<Arc<Fake>> {
    tokio::time::sleep(DAYS).await;
    let nodes = nodes(count);
    for (index, node) in nodes.iter().enumerate() {
        started(node, &format!("run{index}"), SECOND);
    }
    nodes
}

/// Takes another lock for a moment.
pub(super) async fn touch(redlock: &Redlock) {
    let guard = redlock.lock("other").expire(EXPIRE).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// Takes a lock on all nodes but the last.
async fn hold(redlock: &Redlock, nodes: &[Arc<Fake>]) -> crate::guard::LockGuard {
    let away = nodes.last().unwrap();
    away.always(Some(DOWN));
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    away.always(None);
    guard
}

/// As a server that comes back empty.
fn restart(node: &Fake, run_id: &str) {
    node.store.remove("k");
    node.take_founders();
    started(node, run_id, Duration::ZERO);
}

/// The same, seen by a client that was there before.
fn restart_seen(node: &Fake, run_id: &str) {
    restart(node, run_id);
    node.recalls(MemorySince::new(run_id.into(), now(), Cause::Restarted));
}

pub(super) async fn attempt(redlock: &Redlock) -> Result<(), LockError> {
    let request = redlock.lock("k").expire(EXPIRE).wait(Wait::Never);
    request.acquire().await.map(std::mem::forget)
}

fn quarantined(error: &LockError) -> usize {
    let LockError::Unavailable { nodes, .. } = error else { return 0 };
    nodes.iter().filter(|node| node.kind() == NodeErrorKind::Quarantined).count()
}

#[tokio::test(start_paused = true)]
async fn a_new_group_is_used_at_once() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    redlock.lock("k").expire(EXPIRE).acquire().await.unwrap().release().await.unwrap();
    let second = client(&nodes);
    assert!(attempt(&second).await.is_ok());
    assert_eq!(nodes[1].take_founders().as_deref(), Some("run0 run1 run2"));
}

/// Nobody else can say what it was before.
#[tokio::test(start_paused = true)]
async fn a_single_node_has_no_vote_until_it_is_older_than_every_lease() {
    let nodes = group(1).await;
    let redlock = client(&nodes);
    assert_eq!(quarantined(&attempt(&redlock).await.unwrap_err()), 1);
    tokio::time::sleep(EXPIRE).await;
    assert!(attempt(&redlock).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_empty_makes_no_second_holder() {
    for is_stranger in [false, true] {
        let nodes = group(3).await;
        let (first, second) = (client(&nodes), client(&nodes));
        if !is_stranger {
            touch(&second).await;
        }
        let guard = hold(&first, &nodes).await;
        let begin = if is_stranger { restart } else { restart_seen };
        begin(&nodes[1], "run1b");
        // One refuses, one has no vote, one grants.
        let error = attempt(&second).await.unwrap_err();
        assert!(matches!(error, LockError::Timeout { .. }), "{error}");
        assert!(guard.check().is_ok());
        nodes[0].always(Some(DOWN));
        let error = attempt(&second).await.unwrap_err();
        assert_eq!(quarantined(&error), 1, "{error}");
        assert!(error.to_string().contains("no vote for another"), "{error}");
    }
}

/// It has granted, but has no vote: what it granted is given back.
#[tokio::test(start_paused = true)]
async fn a_node_whose_answer_tells_of_a_restart_keeps_nothing() {
    let nodes = group(1).await;
    let redlock = client(&nodes);
    tokio::time::sleep(2 * EXPIRE).await;
    touch(&redlock).await;
    nodes[0].next_acquires([Fate::Slow(Duration::from_millis(2))]);
    let attempt = tokio::spawn(async move { attempt(&redlock).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(nodes[0].store.owner("k").is_some());
    nodes[0].recalls(MemorySince::new("run0b".into(), now(), Cause::Restarted));
    assert_eq!(quarantined(&attempt.await.unwrap().unwrap_err()), 1);
    tokio::time::sleep(SECOND).await;
    assert_eq!(nodes[0].store.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn without_the_guard_there_are_two_holders() {
    let nodes = group(3).await;
    let (first, second) = (with_guard(&nodes, None), with_guard(&nodes, None));
    let guard = hold(&first, &nodes).await;
    restart(&nodes[1], "run1b");
    assert!(attempt(&second).await.is_ok());
    assert!(guard.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_votes_again_when_what_it_forgot_is_over() {
    let nodes = group(3).await;
    let (first, second) = (client(&nodes), client(&nodes));
    touch(&second).await;
    let guard = hold(&first, &nodes).await;
    restart_seen(&nodes[1], "run1b");
    // The holder is gone for good: it neither renews nor releases.
    nodes[0].store.remove("k");
    std::mem::forget(guard);
    nodes[2].always(Some(DOWN));
    tokio::time::sleep(EXPIRE).await;
    assert!(quarantined(&attempt(&second).await.unwrap_err()) == 1);
    tokio::time::sleep(SECOND).await;
    nodes[1].store.remove("k");
    nodes[0].store.remove("k");
    assert!(attempt(&second).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_later_finds_the_roll_also_after_all_were_restarted_in_turn() {
    let nodes = group(3).await;
    let resident = client(&nodes);
    for (index, node) in nodes.iter().enumerate() {
        restart_seen(node, &format!("run{index}b"));
        tokio::time::sleep(2 * EXPIRE).await;
        // Meets the new server, and writes the list of founders on it.
        touch(&resident).await;
        tokio::time::sleep(SECOND).await;
        started(node, &format!("run{index}b"), 2 * EXPIRE);
    }
    let guard = hold(&resident, &nodes).await;
    restart(&nodes[1], "run1c");
    let stranger = client(&nodes);
    assert!(attempt(&stranger).await.is_err());
    nodes[0].always(Some(DOWN));
    let error = attempt(&stranger).await.unwrap_err();
    assert_eq!(quarantined(&error), 1, "{error}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restarted_is_given_the_roll_when_it_votes_again() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    restart_seen(&nodes[1], "run1b");
    tokio::time::sleep(2 * EXPIRE).await;
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    // And others are told for how long it was watched.
    let founders = nodes[1].take_founders().unwrap();
    assert!(founders.starts_with("run0 run1 run2 run1b=20000 run1b=@client:"), "{founders}");
}

/// Its word for it would be its uptime, which comes from a clock that may have been wrong.
#[tokio::test(start_paused = true)]
async fn how_long_a_restarted_server_was_watched_is_noted_from_the_first_call_on() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    restart_seen(&nodes[1], "run1b");
    for seen in [" run1b=0 ", " run1b=2000 ", " run1b=5000 "] {
        touch(&redlock).await;
        tokio::time::sleep(SECOND).await;
        let founders = nodes[1].founders();
        assert!(
            founders.as_ref().is_some_and(|founders| founders.contains(seen)),
            "{seen}: {founders:?}"
        );
        tokio::time::sleep(if seen == " run1b=0 " { SECOND } else { 2 * SECOND }).await;
    }
}

/// If the list of founders ended while the group is in use, the group would look new.
#[tokio::test(start_paused = true)]
async fn a_group_in_use_keeps_its_founders() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    assert!(nodes[0].take_founders().is_some());
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    // Renewals are use enough.
    tokio::time::sleep(Duration::from_secs(13 * 3600)).await;
    assert_eq!(nodes[0].take_founders().as_deref(), Some("run0 run1 run2"));
    assert!(guard.check().is_ok());
}

/// It was down a moment ago, and the others came back empty, or were out of reach when the group
/// began.
#[tokio::test(start_paused = true)]
async fn a_node_with_the_only_list_of_founders_is_waited_for() {
    let nodes = group(3).await;
    let guard = hold(&client(&nodes), &nodes).await;
    restart(&nodes[0], "run0b");
    let second = client(&nodes);
    nodes[1].always(Some(DOWN));
    assert!(second.health().await.is_available(), "two others are up");
    nodes[1].always(Some(Fate::Slow(Duration::from_millis(20))));
    assert!(attempt(&second).await.is_err());
    assert!(guard.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_is_given_the_roll_once() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    assert!(nodes[1].take_founders().is_some());
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(nodes[1].take_founders(), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_could_not_be_written_is_written_soon() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    assert!(nodes[1].take_founders().is_some());
    tokio::time::sleep(Duration::from_secs(13 * 3600)).await;
    nodes[1].always(Some(DOWN));
    touch(&redlock).await;
    nodes[1].always(None);
    tokio::time::sleep(2 * SECOND).await;
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(nodes[1].take_founders().as_deref(), Some("run0 run1 run2"));
}

#[tokio::test(start_paused = true)]
async fn a_longer_lease_of_others_can_be_named() {
    let nodes = group(3).await;
    let guard = RestartGuard::new(Clock::Tokio, "founders".into(), 6 * EXPIRE, EXPIRE);
    let second = with_guard(&nodes, Some(guard));
    touch(&second).await;
    restart_seen(&nodes[0], "run0b");
    restart_seen(&nodes[1], "run1b");
    tokio::time::sleep(5 * EXPIRE).await;
    assert_eq!(quarantined(&attempt(&second).await.unwrap_err()), 2);
    tokio::time::sleep(2 * EXPIRE).await;
    assert!(attempt(&second).await.is_ok());
}

/// Somebody may still count on the vote that the node has forgotten.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_won_back_counts_in_renewals_once_it_votes_again() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    // A longer lease than the one to come may have been forgotten.
    redlock.lock("long").expire(6 * EXPIRE).acquire().await.unwrap().release().await.unwrap();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    restart_seen(&nodes[2], "run2b");
    tokio::time::sleep(EXPIRE * 3 / 2).await;
    assert!(nodes[2].store.owner("k").is_some(), "it was won back");
    assert!(guard.check().is_ok());
    nodes[0].always(Some(DOWN));
    tokio::time::sleep(EXPIRE * 3 / 2).await;
    assert!(guard.check().is_err(), "one of two votes was not one");

    nodes[0].always(None);
    tokio::time::sleep(7 * EXPIRE).await;
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    nodes[0].always(Some(DOWN));
    tokio::time::sleep(EXPIRE * 3).await;
    assert!(guard.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumped_takes_no_vote_from_a_lease_that_it_left_standing() {
    for cause in [Cause::ClockJumped(-60_000), Cause::ClockDiffers(-60_000)] {
        let nodes = group(3).await;
        let redlock = client(&nodes);
        let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
        tokio::time::sleep(SECOND).await;
        for node in &nodes {
            node.doubted(now(), cause);
        }
        tokio::time::sleep(EXPIRE * 3).await;
        assert!(guard.check().is_ok(), "{cause:?}");
        assert!(guard.renewals() > 2);
    }
}

/// It came back with older data, which have the lease, and with a clock that is off.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_right_after_a_restart_gives_no_vote_to_older_leases() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    nodes[2].recalls(MemorySince::new("run2b".into(), now(), Cause::Restarted));
    tokio::time::sleep(Duration::from_millis(10)).await;
    nodes[2].doubted(now(), Cause::ClockJumped(60_000));
    nodes[1].always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    tokio::time::sleep(EXPIRE).await;
    assert!(guard.check().is_err());
}

/// What the comparison of the clocks shows is later than the restart, and was found out before.
#[tokio::test(start_paused = true)]
async fn a_doubt_of_the_process_before_says_nothing_of_what_the_next_one_kept() {
    let nodes = group(3).await;
    let restarted = now();
    tokio::time::sleep(SECOND).await;
    nodes[2].doubted(now(), Cause::ClockDiffers(60_000));
    let member = Member::new(2, Arc::clone(&nodes[2]) as Arc<dyn QuorumMember>);
    assert!(member.note_compared(member.memory_since()));
    nodes[2].recalls(MemorySince::new("run2b".into(), restarted, Cause::Restarted));
    let MemorySince { cause, kept_since, .. } = member.memory_since().unwrap();
    assert_eq!((cause, kept_since), (Cause::ClockDiffers(60_000), restarted));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_and_won_back_does_not_count_at_first() {
    // A clock that jumps after a restart proves nothing of what was won back before.
    let jump = Cause::ClockJumped(60_000);
    for (cause, later) in [(jump, None), (Cause::Restarted, Some(jump))] {
        let nodes = group(3).await;
        let redlock = client(&nodes);
        redlock.lock("long").expire(6 * EXPIRE).acquire().await.unwrap().release().await.unwrap();
        let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
        tokio::time::sleep(SECOND).await;
        let recalls = |cause| match cause {
            Cause::Restarted => nodes[2].recalls(MemorySince::new("run2".into(), now(), cause)),
            _ => nodes[2].doubted(now(), cause),
        };
        nodes[2].store.remove("k");
        recalls(cause);
        tokio::time::sleep(EXPIRE * 3 / 2).await;
        assert!(nodes[2].store.owner("k").is_some(), "it was won back");
        if let Some(later) = later {
            recalls(later);
        }
        nodes[0].always(Some(DOWN));
        tokio::time::sleep(EXPIRE * 3 / 2).await;
        assert!(guard.check().is_err(), "one of two votes was not one");
    }
}
