//! How long a caller queues, and in which order callers are served.

use std::sync::{Arc, Mutex};

use redlock::{LockError, Wait};
use tokio::task::JoinSet;

use super::place::{KEY, Place};
use crate::support::{ms, secs};

pub async fn never_asks_once(place: &Place) {
    let (_, guard) = place.held().await;
    let client = place.client().await;
    match client.lock(KEY).wait(Wait::Never).acquire().await.unwrap_err() {
        LockError::Timeout { key, attempts, holder, remaining, position, .. } => {
            assert_eq!((&*key, attempts, position), (KEY, 1, None));
            let left = remaining.expect("the answer tells it");
            assert!(left > secs(1) && left <= secs(30), "{left:?}");
            assert_eq!(holder.as_deref(), Some(guard.owner()));
        }
        other => panic!("{other:?}"),
    }
}

pub async fn at_most_ends_with_a_timeout(place: &Place) {
    let (_, guard) = place.held().await;
    let client = place.client().await;
    match client.lock(KEY).wait(ms(120)).acquire().await.unwrap_err() {
        LockError::Timeout { waited, attempts, holder, .. } => {
            assert!(waited >= ms(120) && waited < secs(10), "{waited:?}");
            assert!(attempts >= 2, "a first and a last one at least: {attempts}");
            assert_eq!(holder.as_deref(), Some(guard.owner()));
        }
        other => panic!("{other:?}"),
    }
}

pub async fn at_most_gets_a_lock_that_comes_free(place: &Place) {
    let (_, guard) = place.held().await;
    let client = place.client().await;
    let waiter = tokio::spawn(client.lock(KEY).wait(secs(30)).acquire());
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().expect("it came free in time");
    assert_eq!(place.owner(KEY).await.as_deref(), Some(next.owner()));
}

/// The holder is dead: nobody releases, the lease ends.
pub async fn forever_outlasts_the_holder(place: &Place) {
    let client = place.client().await;
    place.steal(KEY, ms(400)).await;
    let waiting = client.lock(KEY).wait(Wait::Forever).acquire();
    let guard = tokio::time::timeout(secs(20), waiting).await.expect("it ends").unwrap();
    assert_eq!(place.owner(KEY).await.as_deref(), Some(guard.owner()));
}

pub async fn waiters_of_one_process_are_served_in_order(place: &Place) {
    let (client, guard) = place.held().await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for n in 0..8 {
        let (request, served) = (client.lock(KEY).wait(Wait::Forever), served.clone());
        waiters.spawn(async move {
            let guard = request.acquire().await.unwrap();
            served.lock().unwrap().push(n);
            guard.release().await.unwrap();
        });
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
    while let Some(done) = waiters.join_next().await {
        done.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

pub async fn a_waiter_is_not_passed_by_those_who_came_later(place: &Place) {
    let (client, guard) = place.held().await;
    let waiter = tokio::spawn(client.lock(KEY).wait(Wait::Forever).acquire());
    tokio::task::yield_now().await;
    let late = client.clone();
    let late = tokio::spawn(async move {
        let guard = late.lock(KEY).wait(Wait::Forever).acquire().await.unwrap();
        guard.fencing_token()
    });
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let early = waiter.await.unwrap().unwrap();
    let fencing_token = early.fencing_token();
    early.release().await.unwrap();
    assert!(late.await.unwrap() > fencing_token);
}
