//! Shutdowns: those who wait are told at once, and those who hold a lock finish.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use super::fake::{Fate, client, fake};
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::options::Wait;

const SECOND: Duration = Duration::from_secs(1);

fn is_told<T>(result: Result<T, LockError>) -> bool {
    let Err(error) = result else { return false };
    assert_eq!(error.key(), Some("k"));
    matches!(error, LockError::ShuttingDown { .. })
}

async fn all_are_told(waiters: JoinSet<Result<LockGuard, LockError>>) {
    let ended = timeout(60 * SECOND, waiters.join_all()).await.expect("they do not wait on");
    assert!(ended.into_iter().all(is_told));
}

/// Ten callers that wait for `k`, and do not end by themselves.
async fn waiters(redlock: &Redlock) -> JoinSet<Result<LockGuard, LockError>> {
    let mut waiters = JoinSet::new();
    for n in 0..10 {
        let wait = if n % 2 == 0 { Wait::Forever } else { Wait::AtMost(900 * SECOND) };
        waiters.spawn(redlock.lock("k").wait(wait).acquire());
    }
    yield_now().await;
    waiters
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_told_at_once_and_the_holder_goes_on() {
    let (redlock, _) = fake();
    let guard = redlock.lock("k").expire(6 * SECOND).acquire().await.unwrap();
    let waiters = waiters(&redlock).await;
    sleep(3 * SECOND).await;
    let begun = Instant::now();
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    all_are_told(waiters).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    sleep(60 * SECOND).await;
    assert!(guard.check().is_ok() && guard.renewals() > 5);
    guard.release().await.unwrap();
    drop(redlock.lock("k").acquire().await.expect("nobody who was told is in the way"));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_another_process_are_told_at_once() {
    let (redlock, fake) = fake();
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let guard = other.lock("k").acquire().await.unwrap();
    let waiters = waiters(&redlock).await;
    let patient = tokio::spawn(other.lock("k").wait(900 * SECOND).acquire());
    sleep(3 * SECOND).await;
    redlock.shutdown(60 * SECOND).await;
    all_are_told(waiters).await;
    guard.release().await.unwrap();
    drop(patient.await.unwrap().expect("that of another client waits on"));
}

/// A caller that asks by itself has to hear the answer: the lock may be its own.
#[tokio::test(start_paused = true)]
async fn a_question_on_its_way_is_answered_first() {
    let (redlock, fake) = fake();
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let _guard = other.lock("k").acquire().await.unwrap();
    fake.next_acquires([Fate::Slow(SECOND / 2)]);
    let waiters = waiters(&redlock).await;
    let begun = Instant::now();
    redlock.shutdown(60 * SECOND).await;
    all_are_told(waiters).await;
    assert_eq!(begun.elapsed(), SECOND / 2);
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_meanwhile_are_told_and_later_ones_are_served() {
    let (redlock, fake) = fake();
    fake.next_releases([Fate::Slow(SECOND / 2)]);
    drop(redlock.lock("k").acquire().await.unwrap());
    let ending = redlock.clone();
    let shutdown = tokio::spawn(async move { ending.shutdown(60 * SECOND).await });
    yield_now().await;
    assert!(is_told(redlock.lock("k").acquire().await));
    assert!(is_told(redlock.lock("k").try_acquire().await));
    assert_eq!(shutdown.await.unwrap(), 0);
    drop(redlock.lock("k").acquire().await.expect("a flush in between is no end"));
}

#[tokio::test(start_paused = true)]
async fn a_call_inside_of_a_hold_that_waits_for_its_turn_is_told() {
    let (redlock, _) = fake();
    let body = async {
        let turn = redlock.lock("k").acquire().await.unwrap();
        let sibling = redlock.lock("k").wait(Wait::Forever).acquire();
        let sibling = tokio::spawn(Lease::current().unwrap().scope(sibling));
        yield_now().await;
        assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
        let told = timeout(60 * SECOND, sibling).await.expect("it does not wait on");
        assert!(is_told(told.unwrap()));
        drop(turn);
        redlock.lock("k").acquire().await.expect("the outer hold is there").check()
    };
    redlock.lock("k").run(body).await.unwrap().unwrap();
}

/// A call that was granted the lock, and is not polled any more.
async fn unpolled(
    redlock: &Redlock,
) -> Pin<Box<dyn Future<Output = Result<LockGuard, LockError>>>> {
    let held = redlock.lock("k").acquire().await.unwrap();
    let mut waits = Box::pin(redlock.lock("k").wait(Wait::Forever).acquire());
    assert!(timeout(SECOND, &mut waits).await.is_err());
    held.release().await.unwrap();
    sleep(SECOND / 2).await;
    waits
}

/// The release of a lock that was taken back from a caller that is not polled.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_taken_back_is_free_at_the_end() {
    let (redlock, fake) = fake();
    let _waits = unpolled(&redlock).await;
    assert!(fake.store.owner("k").is_some(), "it was granted to the waiter");
    fake.next_releases(vec![Fate::LostRequest; 3]);
    sleep(SECOND).await;
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(fake.store.owner("k"), None);
}

/// A shutdown does not wait for a release that the server refuses for good: only the end of the
/// lease frees that lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_may_not_be_released_is_not_waited_for() {
    let (redlock, fake) = fake();
    let _waits = unpolled(&redlock).await;
    fake.next_releases(vec![Fate::Refused(NodeErrorKind::NoPermission, true); 100]);
    sleep(SECOND).await;
    assert_eq!(timeout(SECOND, redlock.shutdown(60 * SECOND)).await, Ok(0));
}
