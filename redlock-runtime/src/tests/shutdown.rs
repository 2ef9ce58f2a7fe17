//! Shutdowns: those who wait are told at once, and those who hold a lock finish.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tracing::Event;
use tracing::field::{Field, Visit};

use super::fake::{Fake, Fate, SECOND, client, client_at, fake};
use super::fifo_queue::{holds, waits};
use super::hear::hear;
use super::server::Server;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::options::Wait;

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
async fn a_call_inside_of_a_hold_that_waits_for_its_turn_has_it() {
    let (redlock, _) = fake();
    let body = async {
        let turn = redlock.lock("k").acquire().await.unwrap();
        let sibling = redlock.lock("k").wait(Wait::Forever).acquire();
        let sibling = tokio::spawn(Lease::current().unwrap().scope(sibling));
        yield_now().await;
        assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
        drop(turn);
        sibling.await.unwrap().expect("it was waited for").check()
    };
    redlock.lock("k").run(body).await.unwrap().unwrap();
}

/// Keys that a body takes while it runs, with one command or in the queue of this process.
fn inner_calls(redlock: &Redlock) -> [Call; 4] {
    let lock = || redlock.lock("inner");
    let (waits, does_not) = (lock().wait(Wait::Forever), lock().wait(Wait::Never));
    let all = redlock.lock_all(["inner", "other"]);
    [
        Box::pin(async { waits.acquire().await.map(drop) }),
        Box::pin(async { does_not.try_acquire().await.map(drop) }),
        Box::pin(lock().run(async {})),
        Box::pin(async { all.wait(Wait::Forever).acquire().await.map(drop) }),
    ]
}

/// A body that could not take a further lock would end in the middle of its work.
#[tokio::test(start_paused = true)]
async fn calls_inside_of_a_hold_are_served_in_a_shutdown() {
    for place in 0..inner_calls(&fake().0).len() {
        let (redlock, fake) = fake();
        let call = inner_calls(&redlock).into_iter().nth(place).unwrap();
        let body = async {
            fake.next_releases([Fate::Slow(SECOND / 2)]);
            drop(redlock.lock("kept").acquire().await.unwrap());
            let mut shutdown = std::pin::pin!(redlock.shutdown(60 * SECOND));
            assert!(timeout(SECOND / 10, &mut shutdown).await.is_err(), "it is under way");
            let called = call.await;
            assert_eq!(shutdown.await, 0);
            called
        };
        redlock.lock("k").run(body).await.unwrap().unwrap_or_else(|e| panic!("{place}: {e}"));
    }
}

/// Those that wait already, too, while the others in the same queue are told.
#[tokio::test(start_paused = true)]
async fn a_call_inside_of_a_hold_that_waits_for_another_lock_has_it_in_the_end() {
    for is_several in [false, true] {
        let (redlock, _) = fake();
        let busy = redlock.lock("k").acquire().await.unwrap();
        let outside = waiters(&redlock).await;
        let wanted = if is_several { redlock.lock_all(["k", "l"]) } else { redlock.lock("k") };
        let body = redlock.lock("outer").run(wanted.wait(Wait::Forever).acquire());
        let body = tokio::spawn(body);
        yield_now().await;
        let late = waiters(&redlock).await;
        // A task that has to acquire several keys counts as pending.
        assert_eq!(redlock.shutdown(SECOND).await, usize::from(is_several));
        all_are_told(outside).await;
        all_are_told(late).await;
        sleep(SECOND).await;
        drop(busy);
        body.await.unwrap().unwrap().expect("it was inside of a hold").check().unwrap();
    }
}

/// Such a call could be made for as long as there are tasks.
#[tokio::test(start_paused = true)]
async fn a_call_inside_of_a_hold_that_has_ended_is_told() {
    let (redlock, _) = fake();
    let _busy = redlock.lock("k").acquire().await.unwrap();
    let guard = redlock.lock("outer").acquire().await.unwrap();
    let lease = guard.lease().clone();
    guard.release().await.unwrap();
    let call = lease.scope(redlock.lock("k").wait(Wait::Forever).acquire());
    let call = tokio::spawn(call);
    yield_now().await;
    redlock.shutdown(60 * SECOND).await;
    assert!(is_told(timeout(60 * SECOND, call).await.expect("it does not wait on").unwrap()));
}

/// What a holder left for the next caller is counted until the poller has it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_left_to_the_poller_is_waited_for() {
    let server = Server::new();
    let redlock = server.client();
    let holder = holds(&redlock).await;
    let mut waits = Box::pin(redlock.lock("k").expire(77 * SECOND).wait(Wait::Forever).acquire());
    assert!(timeout(SECOND / 10, &mut waits).await.is_err());
    drop(holder);
    let pending = &redlock.engine().pending;
    assert_ne!(pending.count(), 0, "a lease of this length has to be asked for");
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!((server.owner("k"), pending.count(), pending.locks()), (None, 0, 0));
    assert!(is_told(waits.await));
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

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// The release of a holder that begins when all others have been answered.
#[tokio::test]
async fn a_shutdown_that_found_nothing_pending_says_so() {
    let fake = Fake::new("n");
    let redlock = client_at(Arc::clone(&fake) as Arc<_>, 100, false);
    let lock = async |key| redlock.lock(key).acquire().await.unwrap();
    let (first, second) = (lock("k").await, lock("l").await);
    fake.next_releases([Fate::Slow(SECOND / 2), Fate::Slow(SECOND / 2)]);
    drop(first);
    let woken = Arc::new(Woken(Notify::new()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut shutdown = pin!(redlock.shutdown(60 * SECOND));
    assert!(shutdown.as_mut().poll(&mut cx).is_pending());
    woken.0.notified().await;
    drop(second);
    assert_eq!(shutdown.as_mut().poll(&mut cx), Poll::Ready(0));
}

type Call = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

/// One call of each form. None of their bodies may begin.
fn calls(redlock: &Redlock) -> [Call; 5] {
    let lock = || redlock.lock("k").min_hold(900 * SECOND);
    let (waits, does_not) = (lock().wait(Wait::Forever), lock().wait(Wait::Never));
    let all = redlock.lock_all(["k", "l"]);
    [
        Box::pin(async { waits.acquire().await.map(drop) }),
        Box::pin(async { does_not.try_acquire().await.map(drop) }),
        Box::pin(lock().run(async { panic!("the body begins") })),
        Box::pin(async { all.acquire().await.map(drop) }),
        Box::pin(redlock.lock_all(["k", "l"]).wait(Wait::Never).run(async { panic!("it begins") })),
    ]
}

/// What they were granted is free when the shutdown returns, without its `min_hold`.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_granted_meanwhile_gives_the_lock_back() {
    for place in 0..calls(&fake().0).len() {
        let (redlock, fake) = fake();
        let call = calls(&redlock).into_iter().nth(place).unwrap();
        fake.next_acquires([Fate::Slow(SECOND / 2)]);
        let call = tokio::spawn(call);
        yield_now().await;
        assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
        assert_eq!(fake.store.owner("k"), None, "call {place}");
        assert!(is_told(call.await.unwrap()), "call {place}");
    }
}

/// The same where a task of the background thread sends the command.
#[tokio::test]
async fn a_call_that_is_granted_by_the_background_gives_the_lock_back() {
    for place in 0..calls(&fake().0).len() {
        let (_, fake) = fake();
        let redlock = client_at(Arc::clone(&fake) as Arc<_>, 100, false);
        let call = calls(&redlock).into_iter().nth(place).unwrap();
        fake.next_acquires([Fate::Slow(SECOND / 20)]);
        let call = tokio::spawn(call);
        yield_now().await;
        assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
        assert_eq!(fake.store.owner("k"), None, "call {place}");
        assert!(is_told(call.await.unwrap()), "call {place}");
    }
}

struct IsGrant(bool);

impl Visit for IsGrant {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}").contains(" acquired");
    }
}

/// A grant is pending until its caller has looked for a shutdown. The subscriber begins and ends a
/// whole shutdown while the lock is being granted.
#[tokio::test(start_paused = true)]
async fn a_shutdown_between_a_grant_and_its_caller_is_seen() {
    for place in 0..calls(&fake().0).len() {
        let redlock = Redlock::builder().memory().build().await.unwrap();
        let call = calls(&redlock).into_iter().nth(place).unwrap();
        let grants = Arc::new(AtomicUsize::new(0));
        let shuts_down = {
            let (redlock, grants) = (redlock.clone(), Arc::clone(&grants));
            move |event: &Event<'_>| {
                let mut is_grant = IsGrant(false);
                event.record(&mut is_grant);
                if is_grant.0 {
                    let engine = redlock.engine();
                    drop(engine.shut_down());
                    // Without a panic, which the library would catch.
                    let is_seen = engine.pending.count() > 0;
                    grants.fetch_add(if is_seen { 1 } else { 1000 }, Ordering::Relaxed);
                }
            }
        };
        let hears = hear(shuts_down);
        let told = is_told(call.await);
        drop(hears);
        assert_eq!((told, grants.load(Ordering::Relaxed)), (true, 1), "call {place}");
        assert_eq!(redlock.engine().pending.count(), 0);
        assert!(redlock.lock("k").try_acquire().await.unwrap().is_some(), "call {place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_granted_the_lock_before_gives_it_back() {
    let (redlock, fake) = fake();
    let waits = unpolled(&redlock).await;
    let begun = Instant::now();
    let (pending, told) = tokio::join!(redlock.shutdown(60 * SECOND), waits);
    assert!(is_told(told));
    assert_eq!((pending, begun.elapsed()), (0, Duration::ZERO));
    assert_eq!(fake.store.owner("k"), None);
}

/// The shutdown waits until the lock was taken back, and is free.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_granted_the_lock_before_and_is_not_polled_loses_it() {
    let (redlock, fake) = fake();
    let waits = unpolled(&redlock).await;
    assert!(fake.store.owner("k").is_some(), "it was granted to the waiter");
    let begun = Instant::now();
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert!(begun.elapsed() <= SECOND / 2, "{:?}", begun.elapsed());
    assert_eq!(fake.store.owner("k"), None);
    assert!(is_told(waits.await));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_the_lock_from_the_holder_before_gives_it_back() {
    let server = Server::new();
    let redlock = server.client();
    let (holder, waiter) = (holds(&redlock).await, waits(&redlock).await);
    server.take_log();
    drop(holder);
    assert_eq!(server.take_log(), Vec::<String>::new(), "it was passed on");
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(server.owner("k"), None);
    assert!(is_told(waiter.await.unwrap()));
}
