//! Places in the queue that are given up.

use std::sync::Arc;

use redis_model::Reply;
use tokio::time::Instant;

use super::fake::{Fate, MINUTE, SECOND};
use super::fifo_queue::{EXPIRE, MOMENT, granted, waits, waits_for};
use super::server::Server;
use super::step::{PRESENT, Step, claim};
use crate::backend::{Release, simulated};
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::Wait;

/// Behind this holder, whose lock is free after a second, ten callers give up. The last one comes
/// behind them: it is the first then, and has to know that.
async fn ten_give_up_behind(server: &Arc<Server>, held: LockGuard) {
    let begun = Instant::now();
    std::mem::forget(held);
    let mut hasty = Vec::new();
    for _ in 0..10 {
        hasty.push(waits_for(&server.client(), EXPIRE, Wait::AtMost(SECOND / 4)).await);
    }
    let last = waits(&server.client()).await;
    for one in hasty {
        assert!(one.await.unwrap().is_err());
    }
    assert_eq!(server.waiting(), 1);
    drop(granted(last).await);
    let took = begun.elapsed();
    assert!(took < SECOND + 20 * MOMENT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_to_the_head_of_the_queue_looks_when_the_lease_ends() {
    let server = Server::new();
    let request = server.client().lock("k").expire(SECOND).max_renew(0);
    ten_give_up_behind(&server, request.acquire().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_to_the_head_of_the_queue_looks_when_the_lease_of_a_reader_ends() {
    let server = Server::new();
    let request = server.client().lock("k").read().expire(SECOND).max_renew(0);
    ten_give_up_behind(&server, request.acquire().await.unwrap()).await;
}

/// Nobody waited when the lock was let go of, so that its process does not hand it over.
#[tokio::test(start_paused = true)]
async fn whoever_comes_to_the_head_of_the_queue_looks_when_the_min_hold_ends() {
    let server = Server::new();
    let holder = server.client();
    let begun = Instant::now();
    let held = holder.lock("k").expire(SECOND).min_hold(SECOND).acquire().await.unwrap();
    held.release().await.unwrap();
    let hasty = waits_for(&server.client(), EXPIRE, Wait::AtMost(SECOND / 4)).await;
    let last = waits(&server.client()).await;
    assert!(hasty.await.unwrap().is_err());
    drop(granted(last).await);
    assert!(begun.elapsed() < SECOND + 20 * MOMENT, "{:?}", begun.elapsed());
}

/// Of a mailbox, a client fetches so many messages at a time; with sixteen it counts as gone.
#[test]
fn those_who_give_up_do_not_fill_the_mailbox_of_their_client() {
    let mut step = Step::new();
    let writer = claim(Kind::Exclusive, MINUTE);
    assert!(step.enters(&writer));
    let readers: Vec<_> = (0..100).map(|_| claim(Kind::Read, MINUTE)).collect();
    for reader in &readers {
        step.enqueues(reader, "@redlock:mailbox");
    }
    for reader in &readers[..99] {
        step.ask(&simulated::release(Release::leaving(reader), true));
    }
    let length = step.server.execute(&[b"LLEN", b"redlock:mailbox"]);
    assert_eq!(length, Reply::Int(8));
}

/// A client library that repeats a command by itself makes two entries of one.
#[test]
fn whoever_stands_twice_at_the_head_of_the_queue_tells_the_next_one() {
    let mut step = Step::new();
    let [writer, twice, next] = [(); 3].map(|()| claim(Kind::Exclusive, MINUTE));
    assert!(step.enters(&writer));
    step.enqueues(&twice, PRESENT);
    step.enqueues(&twice, PRESENT);
    step.enqueues(&next, PRESENT);
    step.ask(&simulated::release(Release::leaving(&twice), true));
    let told = step.told();
    assert!(told.len() == 1 && told[0].starts_with("look "), "{told:?}");
}

/// Somebody has deleted the key of the lock meanwhile, so that another caller of the process has it
/// when the poller looks.
#[tokio::test(start_paused = true)]
async fn a_poller_leaves_the_queue_when_its_last_waiter_is_served_by_its_own_process() {
    let server = Server::new();
    let redlock = server.client();
    server.set("k", MINUTE);
    let waiter = waits(&redlock).await;
    assert_eq!(server.waiting(), 1);
    server.remove("k");
    // The poller looks a second after it came, and finds the lock taken in its process.
    tokio::time::sleep(998 * MOMENT).await;
    let between = redlock.lock("k").expire(EXPIRE).try_acquire().await.unwrap().unwrap();
    tokio::time::sleep(MOMENT).await;
    for _ in 0..9 {
        tokio::task::yield_now().await;
    }
    drop(between);
    let _guard = granted(waiter).await;
    tokio::time::sleep(MOMENT).await;
    assert_eq!(server.waiting(), 0);
}

/// Its poller is granted the lock for nobody.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_comes_behind_a_cancelled_one_that_waited() {
    let server = Server::new();
    let redlock = server.client();
    let queue = redlock.engine().local_queue(&LockKey::new("", "k").unwrap(), Kind::Exclusive);
    queue.state().note_contention();
    server.next("join", [Fate::Slow(20 * MOMENT)]);
    let waiting = redlock.lock("k").wait(Wait::Forever).acquire();
    assert!(tokio::time::timeout(MOMENT, waiting).await.is_err());
    assert!(server.owner("k").is_some());
    drop(redlock.lock("k").try_acquire().await.unwrap().expect("it was abandoned"));
    assert_eq!(server.owner("k"), None);
}
