//! Release hints, where the server keeps no queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, SECOND};
use super::quorum::{nodes, on, quorum};
use super::step::claim;
use crate::backend::{LockBackend, OnRelease};
use crate::error::LockError;
use crate::kind::Kind;

/// Longer than the longest pause between two attempts.
const A_WHILE: Duration = Duration::from_millis(200);

fn that_tell(count: usize) -> Vec<Arc<Fake>> {
    let nodes = nodes(count);
    for node in &nodes {
        node.gives_notice();
    }
    nodes
}

/// How often each verb came, over all nodes.
fn count(nodes: &[Arc<Fake>], verb: &str) -> usize {
    let log: Vec<String> = nodes.iter().flat_map(|node| node.take_log()).collect();
    log.iter().filter(|line| line.split(' ').next() == Some(verb)).count()
}

#[tokio::test(start_paused = true)]
async fn who_waits_has_the_lock_in_the_moment_in_which_another_process_releases_it() {
    let nodes = that_tell(5);
    let (first, second) = (on(&nodes), on(&nodes));
    for round in 0..20 {
        let guard = first.lock("k").acquire().await.unwrap();
        let waiting = tokio::spawn(second.lock("k").wait(60 * SECOND).acquire());
        // At any point of a pause.
        tokio::time::sleep(2 * SECOND + A_WHILE / 20 * round).await;
        assert!(nodes.iter().all(|node| node.awaited() == 1), "{round}");
        guard.release().await.unwrap();
        let released = Instant::now();
        let guard = waiting.await.unwrap().unwrap();
        assert_eq!(released.elapsed(), Duration::ZERO, "{round}");
        guard.release().await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert!(nodes.iter().all(|node| node.awaited() == 0), "{round}");
    }
}

/// The holder still has its quorum: nothing can be had.
#[tokio::test(start_paused = true)]
async fn a_minority_that_is_free_wakes_nobody() {
    let nodes = that_tell(5);
    let (first, second) = (on(&nodes), on(&nodes));
    let guard = first.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(second.lock("k").wait(60 * SECOND).acquire());
    // Pauses are long by now, and one has just begun: a release hint has caused the next attempt.
    tokio::time::sleep(10 * SECOND).await;
    count(&nodes, "acquire");
    while count(&nodes, "acquire") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(nodes.iter().all(|node| node.awaited() == 1));
    let asks = async |told: &[Arc<Fake>]| {
        for node in told {
            node.store.give_hint("k");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        count(&nodes, "acquire") > 0
    };
    assert!(!asks(&nodes[..2]).await, "three have it");
    assert!(asks(&nodes[2..3]).await, "two have it");
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_wants_no_notice_any_more() {
    let nodes = that_tell(3);
    let (first, second) = (on(&nodes), on(&nodes));
    let guard = first.lock("k").acquire().await.unwrap();
    let error = second.lock("k").wait(3 * SECOND).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { .. }), "{error}");
    tokio::time::sleep(2 * SECOND).await;
    assert!(nodes.iter().all(|node| node.awaited() == 0));
    drop(guard);
}

/// A lock that is kept for its `min_hold` leaves the requests of those that wait for it, and their
/// process may end.
#[tokio::test(start_paused = true)]
async fn a_request_stays_until_all_nodes_have_told() {
    let nodes = that_tell(5);
    let (claim, came) = (claim(Kind::Exclusive, SECOND), Arc::new(AtomicBool::new(false)));
    let comes = Arc::clone(&came);
    let on_release: OnRelease = Arc::new(move || comes.store(true, Ordering::Relaxed));
    let quorum = quorum(&nodes, None, Duration::ZERO);
    let hints = quorum.abilities().release_hints.unwrap();
    let guard = on(&nodes).lock("lock:k").acquire().await.unwrap();
    let request = hints.request_hint(&claim, on_release, SECOND).await.unwrap();
    for (told, node) in (1..).zip(&nodes) {
        assert!(request.stays(), "{told}");
        node.store.give_hint("lock:k");
        assert_eq!(came.load(Ordering::Relaxed), told >= 3, "{told}");
    }
    assert!(!request.stays());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_asked_for_once_a_second_and_not_for_a_lock_that_is_free_in_a_moment() {
    let nodes = that_tell(3);
    let (first, second) = (on(&nodes), on(&nodes));
    let guard = first.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(second.lock("k").wait(60 * SECOND).acquire());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(count(&nodes, "request_hint"), 0, "the pauses are still shorter than a hint takes");
    tokio::time::sleep(10 * SECOND).await;
    let asked = count(&nodes, "request_hint");
    assert!((9 * 3..=11 * 3).contains(&asked), "{asked}");
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
}

/// Nodes that know nothing of the lock, as after a loss of data, tell so at once, and are right as
/// often as they are asked.
#[tokio::test(start_paused = true)]
async fn notices_in_vain_cause_no_more_questions_than_the_clock() {
    let questions = async |nodes: &[Arc<Fake>]| {
        let (first, second) = (on(nodes), on(nodes));
        let guard = first.lock("k").acquire().await.unwrap();
        let waiting = tokio::spawn(second.lock("k").wait(60 * SECOND).acquire());
        tokio::time::sleep(5 * SECOND).await;
        count(nodes, "acquire");
        for _ in 0..5_000 {
            for node in nodes {
                node.store.give_hint("k");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(guard);
        drop(waiting.await.unwrap().unwrap());
        count(nodes, "acquire")
    };
    let (silent, telling) = (nodes(3), that_tell(3));
    let (by_the_clock, with_notices) = (questions(&silent).await, questions(&telling).await);
    assert!(
        with_notices > by_the_clock && with_notices <= by_the_clock * 5 / 2,
        "{with_notices} against {by_the_clock}"
    );
}
