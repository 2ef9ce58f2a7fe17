//! Nodes whose clock may have jumped before a client came: their clocks are compared with those of
//! the others.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, Fate, SECOND};
use super::restart_guard::{client, group, started, touch};
use crate::backend::{Cause, MemorySince};
use crate::client::Redlock;
use crate::clock::Clock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

const MILLI: Duration = Duration::from_millis(1);
const EXPIRE: Duration = Duration::from_secs(10);
const DOWN: Fate = Fate::Refused(NodeErrorKind::Unreachable, false);
const MINUTE: i64 = 60_000_000;

async fn attempt(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    let request = redlock.lock(key).expire(EXPIRE).wait(Wait::Never);
    request.acquire().await.map(std::mem::forget)
}

/// The nodes without a vote, with the reasons.
fn quarantined(error: &LockError) -> Vec<(&str, &str)> {
    let LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
    let has_no_vote = nodes.iter().filter(|node| node.kind() == NodeErrorKind::Quarantined);
    has_no_vote.map(|node| (node.node(), node.message())).collect()
}

/// A group that has a list of founders, and a node whose clock is ahead.
async fn group_with_odd_clock() -> Vec<Arc<Fake>> {
    let nodes = group(3).await;
    touch(&client(&nodes)).await;
    nodes[1].clock_offset(MINUTE);
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_since_before_the_client_came_has_no_vote_at_first() {
    let nodes = group(3).await;
    nodes[0].clock_offset(5);
    nodes[1].clock_offset(MINUTE);
    nodes[2].clock_offset(-5);
    nodes[2].always(Some(Fate::Slow(MILLI)));
    let redlock = client(&nodes);
    let first = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    assert_eq!(nodes[1].store.owner("k"), None);
    first.release().await.unwrap();
    tokio::time::sleep(EXPIRE + SECOND).await;
    assert!(attempt(&redlock, "k").await.is_ok());
    tokio::time::sleep(SECOND).await;
    assert!(nodes[1].store.owner("k").is_some());
}

/// It is a founder, so that nothing else speaks against it.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_out_of_reach_when_the_client_came_is_compared_by_its_first_answer() {
    for fate in [DOWN, Fate::LostRequest] {
        let nodes = group_with_odd_clock().await;
        nodes[1].tells_nothing();
        nodes[1].always(Some(fate));
        let redlock = client(&nodes);
        touch(&redlock).await;
        tokio::time::sleep(SECOND).await;
        nodes[1].always(None);
        nodes[2].always(Some(DOWN));
        tokio::time::sleep(SECOND).await;
        let error = attempt(&redlock, "k").await.unwrap_err();
        let [("b", why)] = quarantined(&error)[..] else { panic!("{error}") };
        assert!(why.contains("60000 ms off"), "{why}");
        // What it granted was given back.
        tokio::time::sleep(SECOND).await;
        assert_eq!(nodes[1].store.owner("k"), None);
        // It votes when what it may have forgotten is over, and is not compared again.
        tokio::time::sleep(EXPIRE).await;
        let later = redlock.lock("later").expire(EXPIRE).wait(Wait::Never).acquire().await;
        // It would be renewed for days.
        later.unwrap().release().await.unwrap();
    }
}

/// Its first answer took long. The middle of what its clock can be is a minute off.
#[tokio::test(start_paused = true)]
async fn a_node_is_compared_by_an_answer_that_came_soon() {
    let nodes = group(3).await;
    touch(&client(&nodes)).await;
    nodes[1].tells_nothing();
    nodes[1].clock_width(2 * MINUTE);
    let redlock = client(&nodes);
    nodes[2].always(Some(DOWN));
    assert!(attempt(&redlock, "k").await.is_ok(), "it has a vote");
    nodes[1].clock_width(0);
    nodes[1].clock_offset(MINUTE);
    nodes[2].always(None);
    touch(&redlock).await;
    nodes[0].always(Some(DOWN));
    tokio::time::sleep(SECOND).await;
    let error = attempt(&redlock, "other").await.unwrap_err();
    assert!(matches!(quarantined(&error)[..], [("b", _)]), "{error}");
}

/// Its clock would be in the majority against a third one that is right.
#[tokio::test(start_paused = true)]
async fn one_server_under_two_addresses_has_one_clock() {
    let nodes = group(3).await;
    for twin in &nodes[..2] {
        twin.clock_offset(MINUTE);
        started(twin, "run0", SECOND);
    }
    let redlock = client(&nodes);
    assert!(attempt(&redlock, "k").await.is_ok());
    assert!(nodes[2].store.owner("k").is_some(), "it has a vote");
}

/// Of two clocks nobody knows which one is right.
#[tokio::test(start_paused = true)]
async fn clocks_that_differ_are_compared_again_when_another_one_is_known() {
    let nodes = group_with_odd_clock().await;
    nodes[2].tells_nothing();
    nodes[2].always(Some(DOWN));
    let redlock = client(&nodes);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    nodes[2].always(None);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    nodes[0].always(Some(DOWN));
    let error = attempt(&redlock, "k").await.unwrap_err();
    assert!(matches!(quarantined(&error)[..], [("b", _)]), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_tell_its_time_has_no_vote() {
    let nodes = group(3).await;
    nodes[1].clock_offset(None);
    let redlock = client(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    nodes[2].always(Some(DOWN));
    let error = attempt(&redlock, "other").await.unwrap_err();
    let [("b", why)] = quarantined(&error)[..] else { panic!("{error}") };
    assert!(why.contains("do not tell its time"), "{why}");
    let text = error.to_string();
    assert!(text.contains("name the server itself") && !text.contains("by itself"), "{text}");
    // Nor does it count in a renewal.
    tokio::time::sleep(2 * EXPIRE).await;
    assert!(guard.check().is_err());
}

/// The next client would believe it.
#[tokio::test(start_paused = true)]
async fn a_restarted_server_counts_as_watched_since_its_clock_was_found_to_differ() {
    let nodes = group(3).await;
    nodes[1].clock_offset(None);
    let redlock = client(&nodes);
    touch(&redlock).await;
    nodes[1].recalls(MemorySince::new("run1b".into(), Clock::Tokio.now(), Cause::Restarted));
    tokio::time::sleep(3600 * SECOND).await;
    nodes[1].clock_offset(MINUTE);
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    let founders = nodes[1].founders().unwrap();
    assert!(founders.contains(" run1b=0 "), "{founders}");
}

/// The next client may begin at once, when the clock is right again, and cannot see the jump.
#[tokio::test(start_paused = true)]
async fn how_long_a_restarted_server_was_watched_is_noted_anew_when_its_clock_jumps() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    let now = Clock::Tokio.now();
    nodes[1].recalls(MemorySince::new("run1b".into(), now, Cause::Restarted));
    for seen in [0, 3_600_000] {
        touch(&redlock).await;
        tokio::time::sleep(SECOND).await;
        let founders = nodes[1].founders().unwrap();
        assert!(founders.contains(&format!(" run1b={seen} ")), "{seen}: {founders}");
        tokio::time::sleep(3599 * SECOND).await;
    }
    touch(&redlock).await;
    tokio::time::sleep(SECOND).await;
    nodes[1].doubted(Clock::Tokio.now(), Cause::ClockJumped(60_000));
    touch(&redlock).await;
    tokio::time::sleep(MILLI).await;
    let founders = nodes[1].take_founders().unwrap();
    assert!(founders.contains(" run1b=0 "), "{founders}");
    // Once for each jump; a clock that wobbles jumps with every answer.
    for pause in [SECOND / 4; 3] {
        touch(&redlock).await;
        tokio::time::sleep(MILLI).await;
        assert_eq!(nodes[1].founders(), None);
        nodes[1].doubted(Clock::Tokio.now(), Cause::ClockJumped(60_000));
        tokio::time::sleep(pause).await;
    }
    tokio::time::sleep(SECOND).await;
    touch(&redlock).await;
    tokio::time::sleep(MILLI).await;
    assert!(nodes[1].take_founders().is_some());
}
