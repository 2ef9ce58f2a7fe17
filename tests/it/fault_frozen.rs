//! Servers that do not answer, and callers that do not wait for them.

use std::time::{Duration, Instant};

use redlock::{LockError, NodeErrorKind as Kind, Redlock, redis_lock};

use crate::fault_kit::{
    LONG, NOISE, assert_unavailable, client, lock_keys, nothing_left, poll_and_drop,
};
use crate::support::{Proxy, Server, ms, secs, time_passes};

const CALLERS: usize = 100;
const WAIT: Duration = ms(400);

/// A client to whose server the scripts are known, so that the next command takes the lock.
async fn warm_client(server: &Server) -> (Redlock, String) {
    let (redlock, prefix) = client(&server.url()).await;
    redlock.lock("warm").run(async {}).await.unwrap();
    (redlock, prefix)
}

/// Lets many callers ask a server that does not answer; all of them must be told in time.
async fn all_are_told(redlock: &Redlock) {
    let start = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|n| tokio::spawn(redlock.lock(format!("k{n}")).wait(WAIT).acquire()))
        .collect();
    for caller in callers {
        let error = caller.await.unwrap().map(drop).unwrap_err();
        assert_unavailable(&error, Kind::NoReply);
    }
    assert!(start.elapsed() < WAIT + NOISE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn acquires_on_a_frozen_server_end_with_their_wait_and_leave_nothing() {
    let server = Server::start().await;
    let (redlock, prefix) = warm_client(&server).await;
    server.freeze();
    all_are_told(&redlock).await;
    server.thaw();
    nothing_left(&server.raw(), &prefix, NOISE).await;
    assert!(redlock.held().is_empty());
    assert_eq!(redlock.shutdown(NOISE).await, 0);
    nothing_left(&server.raw(), &prefix, secs(1)).await;
}

#[tokio::test]
async fn acquires_on_a_paused_server_end_with_their_wait_and_leave_nothing() {
    let server = Server::start().await;
    let (redlock, prefix) = warm_client(&server).await;
    server.raw().cmd(&["CLIENT", "PAUSE", "1500", "ALL"]).await;
    all_are_told(&redlock).await;
    nothing_left(&server.raw(), &prefix, NOISE).await;
    assert_eq!(redlock.shutdown(NOISE).await, 0);
    nothing_left(&server.raw(), &prefix, secs(1)).await;
}

#[tokio::test]
async fn acquires_dropped_on_a_frozen_server_leave_nothing() {
    let server = Server::start().await;
    let (redlock, prefix) = warm_client(&server).await;
    server.freeze();
    let callers: Vec<_> = (0..CALLERS)
        .map(|n| {
            let acquire = redlock.lock(format!("k{n}")).wait(LONG).acquire();
            tokio::spawn(poll_and_drop(acquire, n % 21, ms(1)))
        })
        .collect();
    for caller in callers {
        assert!(caller.await.unwrap().is_none(), "a frozen server granted a lock");
    }
    server.thaw();
    assert_eq!(redlock.shutdown(NOISE).await, 0);
    nothing_left(&server.raw(), &prefix, NOISE).await;
    assert!(redlock.held().is_empty());
}

#[tokio::test]
async fn acquires_dropped_on_a_paused_server_leave_nothing() {
    let server = Server::start().await;
    let (redlock, prefix) = warm_client(&server).await;
    for k in 0..=20 {
        server.raw().cmd(&["CLIENT", "PAUSE", "40", "ALL"]).await;
        for n in 0..5 {
            let acquire = redlock.lock(format!("k{n}")).wait(LONG).acquire();
            poll_and_drop(acquire, k, ms(1)).await.map(Result::unwrap);
        }
    }
    assert_eq!(redlock.shutdown(NOISE).await, 0);
    nothing_left(&server.raw(), &prefix, NOISE).await;
    assert!(redlock.held().is_empty());
}

/// A body with a few steps of its own.
#[redis_lock(key = "<key>", wait = "20s", client = redlock)]
async fn locked_call(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    for _ in 0..3 {
        time_passes(ms(1)).await;
    }
    Ok(())
}

#[tokio::test]
async fn calls_dropped_at_every_poll_leave_nothing() {
    let server = Server::shared().await;
    let proxy = Proxy::start(server);
    let (redlock, prefix) = client(&proxy.url()).await;
    // Slow enough that every phase of a call lasts for several polls.
    proxy.delay_requests(ms(2));
    proxy.delay_replies(ms(2));
    let mut ended = 0;
    for k in 0..=20 {
        let calls = (0..5).map(|n| {
            let (redlock, key) = (redlock.clone(), format!("k{k}-{n}"));
            tokio::spawn(poll_and_drop(async move { locked_call(&redlock, &key).await }, k, ms(1)))
        });
        for call in calls.collect::<Vec<_>>() {
            if let Some(outcome) = call.await.unwrap() {
                assert_eq!(outcome, Ok(()));
                ended += 1;
            }
        }
    }
    assert!(ended < 105, "no call was dropped on its way");
    assert_eq!(redlock.shutdown(NOISE).await, 0);
    nothing_left(&server.raw(), &prefix, NOISE).await;
    assert!(redlock.held().is_empty());
}

#[tokio::test]
async fn waiters_that_give_up_do_not_disturb_the_one_that_stays() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let holder = redlock.lock("k").acquire().await.unwrap();
    let stays = tokio::spawn(redlock.lock("k").wait(LONG).acquire());
    for k in 0..=20 {
        let acquire = redlock.lock("k").wait(LONG).acquire();
        assert!(poll_and_drop(acquire, k, ms(1)).await.is_none(), "it is held");
    }
    assert_eq!(lock_keys(&server.raw(), &prefix).await.len(), 1);
    holder.release().await.unwrap();
    drop(stays.await.unwrap().unwrap());
    nothing_left(&server.raw(), &prefix, NOISE).await;
}
