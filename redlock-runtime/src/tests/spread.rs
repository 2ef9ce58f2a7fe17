//! How a client keeps the list of founders on the nodes while it uses them.

use std::time::Duration;

use super::enrolment::{MILLI, Newcomer, group_with_dates};
use super::fake::{Fake, SECOND};
use super::quorum::with_guard;
use super::restart_guard::{DOWN, EXPIRE, attempt, client, group, now, started, touch};
use crate::backend::{Cause, MemorySince, RestartGuard};
use crate::clock::Clock;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For which process a node was offered a list last, and how long that was to live.
fn offered(node: &Fake) -> Option<(Option<String>, Duration)> {
    let offer = node.state().offered.take()?;
    Some((offer.run_id.map(|run_id| run_id.to_string()), offer.life))
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
    assert_eq!(offered(&nodes[1]), Some((Some("run1".to_owned()), 2 * DAY + EXPIRE)));
    let spread = async |lease| {
        newcomer.guard.expect(lease);
        newcomer.guard.spread(&newcomer.members[1], SECOND);
        tokio::time::sleep(MILLI).await;
        offered(&nodes[1])
    };
    assert_eq!(spread(2 * EXPIRE).await, None, "the list outlives this one");
    assert_eq!(spread(5 * DAY).await, Some((Some("run1".to_owned()), 7 * DAY)));
    assert_eq!(spread(EXPIRE).await, None);
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
