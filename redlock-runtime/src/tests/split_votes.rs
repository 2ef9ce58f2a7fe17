//! Split votes: several callers ask several nodes at the same moment, and none gets enough votes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::fake::{Fake, Fate, SECOND};
use super::far::Far;
use super::quorum::{DOWN, held, later, nodes, on, over};
use crate::backend::QuorumMember;
use crate::client::Redlock;
use crate::error::LockError;
use crate::options::Wait;

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
    assert!(error.to_string().ends_with("servers (call again later, or wait longer)"), "{error}");
    let error = on(&nodes).lock("k").wait(SECOND).acquire().await.map(drop).unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("same moment"), "{error}");
    // With a majority, one of them has it.
    nodes[2].store.set("k", "another", 3600 * SECOND);
    assert!(on(&nodes).lock("k").try_acquire().await.unwrap().is_none());
}

/// The lease has ended when the nodes are to agree on its token: no other caller is to blame.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_too_short_for_two_round_trips_is_no_split_vote() {
    let nodes = nodes(3);
    let far = |(at, node)| {
        let one_way = Duration::from_micros([12_000, 12_500, 13_000][at]);
        Far::new(node, one_way) as Arc<dyn QuorumMember>
    };
    let redlock = over(nodes.iter().enumerate().map(far).collect());
    let expire = Duration::from_millis(20);
    for wait in [Wait::Never, Wait::AtMost(SECOND)] {
        let error = redlock.lock("k").expire(expire).wait(wait).acquire().await.map(drop);
        let error = error.unwrap_err();
        assert!(matches!(error, LockError::ExpireTooShort { .. }), "{error}");
    }
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

/// The rivals that it met have gone when it is polled again.
#[tokio::test(start_paused = true)]
async fn a_caller_that_is_polled_late_asks_again_at_once() {
    let nodes = nodes(3);
    for _ in 0..10 {
        split(&nodes, SECOND);
        let request = on(&nodes).lock("k").expire(SECOND).wait(Wait::Never);
        let mut call = pin!(request.acquire());
        assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
        tokio::time::sleep(2 * SECOND).await;
        let polled = tokio::time::Instant::now();
        drop(call.await.unwrap());
        assert_eq!(polled.elapsed(), Duration::ZERO);
        later().await;
    }
}

/// The third node does not tell whose its vote is. A rival asks with another owner each time, and
/// who has the lock stays the same one.
#[tokio::test(start_paused = true)]
async fn a_rival_with_the_vote_of_a_node_that_is_down_is_no_holder() {
    let nodes = nodes(3);
    nodes[2].always(Some(DOWN));
    let store = Arc::clone(&nodes[0]);
    let rival = tokio::spawn(async move {
        for attempt in 0.. {
            store.store.remove("k");
            store.store.set("k", &format!("rival {attempt}"), SECOND);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    for wait in [Wait::Never, Wait::AtMost(SECOND)] {
        let error = on(&nodes).lock("k").wait(wait).acquire().await.map(drop).unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("same moment"), "{error}");
    }
    rival.abort();
    let _ = rival.await;
    nodes[0].store.remove("k");
    nodes[0].store.set("k", "holder", 3600 * SECOND);
    assert!(on(&nodes).lock("k").try_acquire().await.unwrap().is_none());
    for wait in [Wait::Never, Wait::AtMost(SECOND)] {
        let error = on(&nodes).lock("k").wait(wait).acquire().await.map(drop).unwrap_err();
        assert!(error.is_busy() && error.to_string().contains("holder"), "{error}");
    }
}

/// A node that is silent at first takes longer than competitors may.
#[tokio::test(start_paused = true)]
async fn a_holder_is_known_however_long_the_first_attempt_took() {
    let nodes = nodes(3);
    nodes[0].store.set("k", "holder", 3600 * SECOND);
    nodes[1].next_acquires([Fate::Slow(SECOND * 9 / 10)]);
    nodes[2].always(Some(DOWN));
    let request = on(&nodes).lock("k").expire(60 * SECOND).wait(Wait::Never);
    let error = request.acquire().await.map(drop).unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("holder"), "{error}");
}

/// Each of them is near one node, and far from the others.
#[tokio::test(start_paused = true)]
async fn rivals_far_from_each_other_come_to_an_end_without_waiting() {
    let nodes = nodes(3);
    let rival = |near: usize| {
        let distance = |at| Duration::from_millis(if at == near { 0 } else { 30 });
        let far = |(at, node)| Far::new(node, distance(at)) as Arc<dyn QuorumMember>;
        over(nodes.iter().enumerate().map(far).collect())
    };
    let rivals = [0, 1, 2].map(rival);
    for round in 0..10 {
        let call = |rival: &Redlock| {
            let request = rival.lock(format!("k{round}")).expire(60 * SECOND);
            tokio::spawn(request.try_acquire())
        };
        let mut winners = Vec::new();
        for call in rivals.each_ref().map(call) {
            winners.extend(call.await.unwrap().ok().flatten());
        }
        assert_eq!(winners.len(), 1, "round {round}");
    }
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
