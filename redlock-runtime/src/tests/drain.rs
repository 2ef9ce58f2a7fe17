//! Drains: the holders finish, and are waited for.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::fake::{Fate, SECOND, client_at, fake};
use super::fifo_queue::{holds, waits};
use super::server::Server;
use crate::blocking::block_on;
use crate::client::Redlock;
use crate::error::LockError;
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::LostReason;

fn is_told<T>(result: Result<T, LockError>) -> bool {
    result.is_err_and(|error| matches!(error, LockError::ShuttingDown { .. }))
}

/// What the client counts: locks, and commands.
fn left(redlock: &Redlock) -> (usize, usize) {
    let pending = &redlock.engine().pending;
    (pending.locks(), pending.count())
}

#[tokio::test(start_paused = true)]
async fn bodies_guards_and_releases_are_waited_for() {
    let (redlock, fake) = fake();
    let begun = Instant::now();
    let body = tokio::spawn(redlock.lock("body").run(sleep(3 * SECOND)));
    let guard = redlock.lock("guard").acquire().await.unwrap();
    let both = redlock.lock_all(["one", "two"]).acquire().await.unwrap();
    let server = Arc::clone(&fake);
    let kept = tokio::spawn(async move {
        sleep(5 * SECOND).await;
        server.next_releases([Fate::Slow(SECOND / 2)]);
        drop((guard, both));
    });
    sleep(SECOND).await;
    assert_eq!(left(&redlock), (3, 0));
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert_eq!(begun.elapsed(), 11 * SECOND / 2);
    assert_eq!(body.await.unwrap(), Ok(()));
    kept.await.unwrap();
    let is_free = |key: &str| fake.store.owner(key).is_none();
    assert!(["body", "guard", "one", "two"].into_iter().all(is_free));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_locks_is_drained_at_once() {
    let (redlock, _) = fake();
    drop(redlock.lock("k").acquire().await.unwrap());
    let begun = Instant::now();
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn calls_outside_of_a_hold_are_told_and_those_inside_are_served() {
    let (redlock, _) = fake();
    let busy = redlock.lock("busy").acquire().await.unwrap();
    let nested = redlock.lock("busy").wait(Wait::Forever).run(async { 17 });
    let body = tokio::spawn(redlock.lock("k").run(nested));
    yield_now().await;
    let waits = tokio::spawn(redlock.lock("k").wait(Wait::Forever).acquire());
    yield_now().await;
    let draining = redlock.clone();
    let drain = tokio::spawn(async move { draining.drain(60 * SECOND).await });
    yield_now().await;
    assert!(is_told(waits.await.unwrap()));
    assert!(is_told(redlock.lock("other").acquire().await));
    assert!(is_told(redlock.lock("other").try_acquire().await));
    sleep(SECOND).await;
    drop(busy);
    assert_eq!(drain.await.unwrap(), 0);
    assert_eq!(body.await.unwrap(), Ok(Ok(17)), "it took what it needed");
    drop(redlock.lock("k").acquire().await.expect("it is over"));
}

/// A body that spawned them may have left them behind.
#[tokio::test(start_paused = true)]
async fn calls_inside_of_a_hold_that_is_over_are_told() {
    let (redlock, _) = fake();
    let busy = redlock.lock_all(["busy", "too"]).acquire().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let one = redlock.lock("busy").wait(Wait::Forever).acquire();
    let both = redlock.lock_all(["busy", "too"]).wait(Wait::Forever).acquire();
    let inner = redlock.lock("inner").acquire().await.unwrap();
    let waits = [one, both].map(|call| guard.lease().scope(inner.lease().scope(call)));
    let waits = waits.map(tokio::spawn);
    yield_now().await;
    drop(inner);
    let draining = redlock.clone();
    let drain = tokio::spawn(async move { draining.drain(60 * SECOND).await });
    sleep(SECOND).await;
    assert!(!waits.iter().any(tokio::task::JoinHandle::is_finished), "one of the holds goes on");
    drop(guard);
    for call in waits {
        assert!(is_told(timeout(SECOND, call).await.expect("it is told").unwrap()));
    }
    drop(busy);
    assert_eq!(drain.await.unwrap(), 0);
}

/// Its task is polled again only after the drain is over.
#[tokio::test(start_paused = true)]
async fn a_call_that_begins_during_a_drain_does_not_outlive_it() {
    let (redlock, fake) = fake();
    fake.store.set("busy", "somebody", 600 * SECOND);
    let guard = redlock.lock("k").acquire().await.unwrap();
    let draining = redlock.clone();
    let drain = tokio::spawn(async move { draining.drain(60 * SECOND).await });
    yield_now().await;
    let call = redlock.lock("busy").wait(Wait::Forever).acquire();
    let mut call = Box::pin(guard.lease().scope(call));
    assert!(timeout(SECOND, &mut call).await.is_err(), "it is inside of a hold");
    drop(guard);
    assert_eq!(drain.await.unwrap(), 0);
    assert!(is_told(timeout(SECOND, call).await.expect("it is told")));
}

/// The lease of a guard is lost long before the guard is dropped.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_counts_until_its_guard_has_gone() {
    let (redlock, _) = fake();
    let guard = redlock.lock("k").expire(2 * SECOND).max_renew(0).acquire().await.unwrap();
    let begun = Instant::now();
    let kept = tokio::spawn(async move {
        sleep(10 * SECOND).await;
        drop(guard);
    });
    sleep(5 * SECOND).await;
    assert!(redlock.held().is_empty(), "it is lost");
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert_eq!(begun.elapsed(), 10 * SECOND);
    kept.await.unwrap();
}

/// The lease of a body that blocks is lost, and the body goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_blocks_counts_after_its_lease_was_lost() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let (begins, begun) = oneshot::channel();
    let (end, ends) = mpsc::channel::<()>();
    let body = tokio::spawn(redlock.lock("k").run(async move {
        begins.send(Lease::current().unwrap()).unwrap();
        ends.recv().unwrap();
    }));
    assert!(begun.await.unwrap().hold().lose(LostReason::Stolen));
    let mut drain = pin!(redlock.drain(60 * SECOND));
    assert!(timeout(SECOND / 20, &mut drain).await.is_err(), "the body runs");
    end.send(()).unwrap();
    assert_eq!(drain.await, 0);
    body.await.unwrap().expect("nothing stopped it");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_after_its_time_is_told() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").acquire().await.unwrap();
    fake.next_releases([Fate::Slow(SECOND / 2)]);
    drop(redlock.lock("slow").acquire().await.unwrap());
    let begun = Instant::now();
    assert_eq!(redlock.drain(SECOND / 4).await, 2, "a lock and a release");
    assert_eq!(redlock.drain(2 * SECOND).await, 1);
    assert_eq!(begun.elapsed(), 9 * SECOND / 4);
    guard.check().expect("it was not taken away");
    assert_eq!(redlock.drain(Duration::ZERO).await, 1);
    guard.release().await.unwrap();
    assert_eq!(redlock.drain(Duration::ZERO).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_dropped_leaves_a_client_that_works() {
    let (redlock, _) = fake();
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(timeout(SECOND, redlock.drain(60 * SECOND)).await.is_err());
    drop(redlock.lock("other").acquire().await.expect("it is served again"));
    drop(guard);
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
}

#[tokio::test(start_paused = true)]
async fn leaders_resign() {
    let (redlock, fake) = fake();
    let leads = redlock.lock("leader").lead(|_| std::future::pending::<()>());
    let leader = tokio::spawn(leads);
    sleep(SECOND).await;
    assert!(fake.store.owner("leader").is_some());
    let begun = Instant::now();
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(fake.store.owner("leader"), None);
    assert!(is_told(leader.await.unwrap()));
}

/// A body that leads inside of another hold would never end.
#[tokio::test(start_paused = true)]
async fn leaders_inside_of_a_hold_resign_as_well() {
    let (redlock, _) = fake();
    let leads = redlock.lock("leader").lead(|_| std::future::pending::<()>());
    let outer = tokio::spawn(redlock.lock("outer").run(leads));
    sleep(SECOND).await;
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert!(is_told(outer.await.unwrap().unwrap()));
}

/// A candidate inside of a hold does not wait for as long as it takes.
#[tokio::test(start_paused = true)]
async fn candidates_inside_of_a_hold_are_told() {
    let (redlock, fake) = fake();
    let other = client_at(Arc::clone(&fake) as Arc<_>, 100, true);
    let _busy = other.lock("leader").acquire().await.unwrap();
    let leads = redlock.lock("leader").lead(|_| std::future::pending::<()>());
    let outer = tokio::spawn(redlock.lock("outer").run(leads));
    sleep(SECOND).await;
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert!(is_told(outer.await.unwrap().unwrap()));
}

/// A lock that goes from a holder to the next caller of this process is counted all the way.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_passed_on_is_given_back_and_waited_for() {
    let server = Server::new();
    let redlock = server.client();
    let (holder, waiter) = (holds(&redlock).await, waits(&redlock).await);
    assert_eq!(left(&redlock).0, 1);
    drop(holder);
    let (locks, pending) = left(&redlock);
    assert!(locks == 0 && pending > 0, "{locks} {pending}");
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert!(is_told(waiter.await.unwrap()));
    assert_eq!((server.owner("k"), left(&redlock)), (None, (0, 0)));
}

/// Its caller may never be polled again.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_taken_back_does_not_count() {
    let (redlock, _) = fake();
    let held = redlock.lock("k").acquire().await.unwrap();
    let request = redlock.lock_all(["k", "l"]).wait(Wait::Forever);
    let mut waits = Box::pin(request.acquire());
    assert!(timeout(SECOND, &mut waits).await.is_err());
    held.release().await.unwrap();
    sleep(SECOND / 2).await;
    assert!(!redlock.held().is_empty(), "they were granted");
    sleep(3 * SECOND).await;
    assert_eq!(left(&redlock), (0, 0));
    let begun = Instant::now();
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(is_told(waits.await));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_becomes_a_read_lock_stays_counted() {
    let (redlock, _) = fake();
    let writer = redlock.lock("k").acquire().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(left(&redlock), (1, 0));
    drop(reader);
    assert_eq!(redlock.drain(60 * SECOND).await, 0);
}

/// The caller has no timer, and no runtime.
#[test]
fn a_thread_without_a_runtime_drains() {
    let redlock = Redlock::builder().memory().build_blocking().unwrap();
    let guard = redlock.lock("k").acquire_blocking().unwrap();
    assert_eq!(block_on(redlock.drain(SECOND / 100)), 1);
    let draining = redlock.clone();
    let drain = std::thread::spawn(move || block_on(draining.drain(60 * SECOND)));
    let is_under_way = || is_told(redlock.lock("other").try_acquire_blocking());
    while !is_under_way() {
        std::thread::yield_now();
    }
    drop(guard);
    assert_eq!(drain.join().unwrap(), 0);
}
