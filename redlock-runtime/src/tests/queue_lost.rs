//! Queues that are gone, or forbidden, and come back.

use std::time::Duration;

use tokio::time::Instant;

use super::fake::SECOND;
use super::fifo_queue::{EXPIRE, MOMENT, granted, holds, waits, waits_for};
use super::server::Server;
use crate::options::Wait;

/// All of them have their last look after the loss, at a lock that nobody holds any more.
#[tokio::test(start_paused = true)]
async fn the_last_look_of_a_waiter_takes_a_free_lock_though_its_queue_is_gone() {
    let server = Server::new();
    let _holder = server.set("k", EXPIRE);
    let mut waiters = Vec::new();
    for _ in 0..12 {
        let wait = Wait::AtMost(SECOND / 2);
        waiters.push(waits_for(&server.client(), EXPIRE, wait).await);
    }
    // The server has lost its data.
    server.remove("k");
    server.lose_queue("k");
    for waiter in waiters {
        drop(granted(waiter).await);
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_lost_its_place_joins_anew_when_it_looks() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiters = [waits(&server.client()).await, waits(&server.client()).await];
    server.lose_queue("k");
    assert_eq!(server.waiting(), 0);
    tokio::time::sleep(SECOND * 6 / 5).await;
    assert_eq!(server.waiting(), 2);
    holder.release().await.unwrap();
    for waiter in waiters {
        drop(granted(waiter).await);
    }
}

/// Whatever it was that a user was not allowed to do, it is tried again.
#[tokio::test(start_paused = true)]
async fn a_client_that_was_denied_queues_again_soon_after_it_may() {
    let server = Server::new();
    let holder = server.set("k", 100 * EXPIRE);
    let redlock = server.client();
    server.allows_line(false);
    let waiter = waits(&redlock).await;
    tokio::time::sleep(10 * SECOND).await;
    let joins = server.take_verbs().iter().filter(|verb| *verb == "join").count();
    assert!((3..=4).contains(&joins), "{joins} tries in ten seconds, after pauses of 2, 4, 8 s");
    server.allows_line(true);
    let start = Instant::now();
    while server.waiting() == 0 {
        tokio::time::sleep(10 * MOMENT).await;
    }
    assert!(start.elapsed() <= 9 * SECOND, "{:?}", start.elapsed());
    server.free(&holder);
    drop(granted(waiter).await);
}

/// Denied for an hour: a try a minute.
#[tokio::test(start_paused = true)]
async fn a_client_that_stays_denied_asks_for_the_queue_once_a_minute() {
    let server = Server::new();
    let _holder = server.set("k", 1000 * EXPIRE);
    let redlock = server.client();
    server.allows_line(false);
    let waiter = waits(&redlock).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    server.take_log();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let joins = server.take_verbs().iter().filter(|verb| *verb == "join").count();
    assert!((9..=11).contains(&joins), "{joins}");
    waiter.abort();
}
