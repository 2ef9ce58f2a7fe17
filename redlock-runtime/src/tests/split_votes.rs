//! Split votes: several callers ask several nodes at the same moment, and none gets enough votes.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, Fate};
use super::quorum::{held, later, nodes, on};
use crate::client::Redlock;
use crate::error::LockError;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn rivals_that_split_the_vote_come_to_an_end() {
    let nodes = nodes(3);
    let rivals: Vec<Redlock> = (0..3).map(|_| on(&nodes)).collect();
    let mut tasks = Vec::new();
    for (index, rival) in rivals.iter().enumerate() {
        // Each reaches another node first.
        nodes[index].next_acquires([Fate::Slow(Duration::from_millis(1))]);
        let request = rival.lock("k").wait(30 * SECOND);
        tasks.push(tokio::spawn(async move {
            let guard = request.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            guard.release().await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

/// Two rivals have the vote of a node each, for so long.
fn split(nodes: &[Arc<Fake>], lease: Duration) {
    for (node, rival) in nodes.iter().zip(["one", "another"]) {
        node.store.set("k", rival, lease);
    }
}

/// Nobody has the lock, so a call that asks once, as a job that runs on one of several machines
/// does, asks again: otherwise each machine would leave the job to another one.
#[tokio::test(start_paused = true)]
async fn a_split_vote_is_not_taken_for_a_lock_that_somebody_has() {
    let nodes = nodes(3);
    split(&nodes, SECOND / 50);
    let guard = on(&nodes).lock("k").try_acquire().await.unwrap();
    drop(guard.expect("the votes of the others were given back meanwhile"));
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_stays_split_is_no_skip() {
    let nodes = nodes(3);
    split(&nodes, 3600 * SECOND);
    let error = on(&nodes).lock("k").try_acquire().await.map(drop).unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("same moment"), "{error}");
    let error = on(&nodes).lock("k").wait(SECOND).acquire().await.map(drop).unwrap_err();
    assert!(error.is_busy() && !error.to_string().contains("held by"), "{error}");
    // With a majority, one of them has it.
    nodes[2].store.set("k", "another", 3600 * SECOND);
    assert!(on(&nodes).lock("k").try_acquire().await.unwrap().is_none());
}

/// Such a call does not stand in a queue, where a shutdown would find it.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_call_between_two_split_votes() {
    let nodes = nodes(3);
    split(&nodes, SECOND / 100);
    let redlock = on(&nodes);
    let call = tokio::spawn(redlock.lock("k").try_acquire());
    tokio::task::yield_now().await;
    while redlock.engine().pending.count() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    let error = call.await.unwrap().map(drop).unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
}
