//! Waiting in the queue: locks that are handed over, claimed, and given up.

use std::pin::pin;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::fake::{Fate, SECOND, client};
use super::server::{Server, WINDOW};
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::guard::LockGuard;
use crate::options::Wait;
use crate::state::LostReason;

pub(super) const EXPIRE: Duration = Duration::from_secs(10);
pub(super) const MOMENT: Duration = Duration::from_millis(1);

pub(super) type Waiter = JoinHandle<Result<LockGuard, LockError>>;

/// Somebody who waits for as long as it takes; it has its place when this returns.
pub(super) async fn waits(redlock: &Redlock) -> Waiter {
    waits_for(redlock, EXPIRE, Wait::Forever).await
}

pub(super) async fn waits_for(redlock: &Redlock, expire: Duration, wait: Wait) -> Waiter {
    let waiter = tokio::spawn(redlock.lock("k").expire(expire).wait(wait).acquire());
    tokio::time::sleep(MOMENT).await;
    waiter
}

pub(super) async fn granted(waiter: Waiter) -> LockGuard {
    waiter.await.unwrap().unwrap()
}

pub(super) async fn holds(redlock: &Redlock) -> LockGuard {
    redlock.lock("k").expire(EXPIRE).acquire().await.unwrap()
}

/// A full lease, as far as callers care.
pub(super) fn is_full(guard: &LockGuard) -> bool {
    guard.remaining() >= EXPIRE * 8 / 10
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_handed_over_just_now_needs_no_claim() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.take_log();
    holder.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(server.take_verbs(), ["release"]);
    assert!(guard.remaining() < WINDOW && guard.remaining() > WINDOW / 2);
    drop(guard);
    assert_eq!((server.owner("k"), server.waiting()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_lasts_claims_what_was_handed_over_and_that_is_no_renewal() {
    for max_renew in [Some(0), None] {
        let server = Server::new();
        let (holder, redlock) = (holds(&server.client()).await, server.client());
        let mut request = redlock.lock("k").expire(EXPIRE).wait(Wait::Forever);
        if let Some(limit) = max_renew {
            request = request.max_renew(limit);
        }
        let waiter = tokio::spawn(request.acquire());
        tokio::time::sleep(MOMENT).await;
        holder.release().await.unwrap();
        let guard = granted(waiter).await;
        assert!(!guard.lease().hold().is_claimed());
        server.take_log();
        tokio::time::sleep(20 * MOMENT).await;
        assert_eq!(server.take_verbs(), ["renew"]);
        assert!(guard.lease().hold().is_claimed());
        assert!(is_full(&guard) && guard.renewals() == 0, "{guard:?}");
        tokio::time::sleep(EXPIRE * 9 / 10).await;
        assert_eq!((guard.check(), guard.renewals()), (Ok(()), u32::from(max_renew.is_none())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_claim_nobody_answers_is_stopped_before_the_window_is_over() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.next("renew", [Fate::LostRequest; 100]);
    let start = Instant::now();
    holder.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    assert!(start.elapsed() < WINDOW, "{:?}", start.elapsed());
    assert_eq!(server.owner("k").as_deref(), Some(guard.owner()));
}

#[tokio::test(start_paused = true)]
async fn whoever_hears_late_claims_before_the_body_begins() {
    // After the wait, the lease is counted from the join; or the message itself is late.
    for (wait, delay) in [(SECOND / 2, Duration::ZERO), (MOMENT, WINDOW / 2)] {
        let server = Server::new();
        let holder = holds(&server.client()).await;
        let waiter = waits(&server.client()).await;
        tokio::time::sleep(wait).await;
        server.publishes(Some(delay));
        server.take_log();
        holder.release().await.unwrap();
        let guard = granted(waiter).await;
        let log = server.take_log();
        let claim = format!("acquire {}", guard.owner());
        assert!(log.contains(&claim), "{log:?}");
        assert!(is_full(&guard) && server.left("k") > EXPIRE * 9 / 10);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_be_certain_of_a_signal_claims_before_the_body_begins() {
    let server = Server::new();
    server.signals_uncertainly();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.take_log();
    holder.release().await.unwrap();
    let guard = granted(waiter).await;
    let log = server.take_log();
    assert!(log.contains(&format!("acquire {}", guard.owner())), "{log:?}");
    assert!(is_full(&guard));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_refused_joins_anew_with_a_fresh_owner() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.publishes(Some(WINDOW + SECOND / 10));
    holder.release().await.unwrap();
    let called = server.owner("k").unwrap();
    tokio::time::sleep(WINDOW + MOMENT).await;
    let rival = server.set("k", EXPIRE);
    server.publishes(Some(Duration::ZERO));
    server.take_log();
    tokio::time::sleep(SECOND / 5).await;
    assert!(!waiter.is_finished() && server.waiting() == 1);
    // A replica that became the master may still have its entry.
    let log = server.take_log();
    assert!(log.contains(&format!("leave {called}")), "{log:?}");
    server.free(&rival);
    assert_ne!(granted(waiter).await.owner(), called);
}

/// Not in the end of the window in which the claim should have come.
#[tokio::test(start_paused = true)]
async fn what_is_not_claimed_for_sure_is_freed_at_once() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    tokio::time::sleep(SECOND / 2).await;
    server.next("acquire", [Fate::Refused(NodeErrorKind::Loading, false)]);
    let start = Instant::now();
    holder.release().await.unwrap();
    drop(granted(waiter).await);
    assert!(start.elapsed() < WINDOW / 4, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_look_stays_in_the_queue() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.take_log();
    server.next("look", [Fate::Refused(NodeErrorKind::Loading, false)]);
    server.disturb();
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!((server.take_verbs(), server.waiting()), (vec!["look".to_owned(); 2], 1));
    holder.release().await.unwrap();
    drop(granted(waiter).await);
}

/// A server that does not know the queue, say: the poller asks it now and then instead.
#[tokio::test(start_paused = true)]
async fn whoever_is_refused_by_the_line_does_not_try_it_again() {
    for verb in ["join", "look"] {
        let server = Server::new();
        let holder = holds(&server.client()).await;
        server.next(verb, [Fate::Refused(NodeErrorKind::Refused, false)]);
        let waiter = waits(&server.client()).await;
        server.disturb();
        tokio::time::sleep(SECOND).await;
        assert_eq!((waiter.is_finished(), server.waiting()), (false, 0), "{verb}");
        let start = Instant::now();
        holder.release().await.unwrap();
        drop(granted(waiter).await);
        assert!(start.elapsed() < SECOND / 4, "{:?}", start.elapsed());
    }
}

/// Those who wait behind a holder of their own process have asked nobody before.
#[tokio::test(start_paused = true)]
async fn who_finds_a_stranger_in_the_place_of_its_own_process_joins_the_line_at_once() {
    let server = Server::new();
    let redlock = server.client();
    let guard = holds(&redlock).await;
    let waiter = waits(&redlock).await;
    server.remove("k");
    let stranger = holds(&server.client()).await;
    assert_eq!(guard.lost().await, LostReason::Stolen);
    drop(guard);
    tokio::time::sleep(MOMENT).await;
    assert_eq!(server.waiting(), 1);
    stranger.release().await.unwrap();
    drop(granted(waiter).await);
}

#[tokio::test(start_paused = true)]
async fn whoever_was_disturbed_looks_at_once() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.publishes(None);
    holder.release().await.unwrap();
    server.take_log();
    let start = Instant::now();
    server.disturb();
    let guard = granted(waiter).await;
    assert_eq!((start.elapsed(), server.take_verbs()), (Duration::ZERO, vec!["look".to_owned()]));
    assert!(is_full(&guard));
}

/// Others may have lost their connections as well, and are not back yet.
#[tokio::test(start_paused = true)]
async fn a_look_after_a_broken_subscription_leaves_others_their_places() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.take_looks();
    server.disturb();
    tokio::time::sleep(3 * SECOND).await;
    let removes_dead = server.take_looks().into_iter().map(|look| look.removes_dead);
    assert_eq!(removes_dead.take(2).collect::<Vec<_>>(), [false, true]);
    holder.release().await.unwrap();
    drop(granted(waiter).await);
}

/// After a failover: the server has forgotten which signals it sent.
#[tokio::test(start_paused = true)]
async fn a_call_from_before_the_place_in_line_is_not_believed() {
    for has_looked in [false, true] {
        let server = Server::new();
        let holder = holds(&server.client()).await;
        let waiter = waits(&server.client()).await;
        if has_looked {
            tokio::time::sleep(SECOND).await;
            server.disturb();
            tokio::time::sleep(MOMENT).await;
        }
        server.take_log();
        server.calls_from_the_past(SECOND / 2);
        tokio::time::sleep(MOMENT).await;
        assert!(!waiter.is_finished());
        assert_eq!(server.take_verbs(), ["look"], "{has_looked}");
        holder.release().await.unwrap();
        granted(waiter).await.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_missed_is_found_by_looking_after_a_while() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    let called = {
        server.publishes(None);
        holder.release().await.unwrap();
        server.owner("k").unwrap()
    };
    // The look finds a queue that no longer has its entry: its owner has had its turn.
    let guard = granted(waiter).await;
    assert_ne!(guard.owner(), called);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_line_ends_with_one_last_look() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits_for(&server.client(), EXPIRE, Wait::AtMost(SECOND / 2)).await;
    server.take_log();
    let LockError::Timeout { waited, holder: told, .. } = waiter.await.unwrap().unwrap_err() else {
        panic!("another error")
    };
    assert!(waited >= SECOND / 2 && waited < SECOND * 6 / 10, "{waited:?}");
    assert_eq!(told.as_deref(), Some(holder.owner()));
    tokio::time::sleep(MOMENT).await;
    assert_eq!(
        (server.take_verbs().as_slice(), server.waiting()),
        (&["look".to_owned(), "leave".to_owned()][..], 0)
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_over_to_one_who_gave_up_is_freed() {
    let server = Server::new();
    let (holder, redlock) = (holds(&server.client()).await, server.client());
    let waiter = waits(&redlock).await;
    server.publishes(None);
    server.next("leave", [Fate::LostRequest, Fate::Refused(NodeErrorKind::Loading, false)]);
    waiter.abort();
    tokio::time::sleep(MOMENT).await;
    holder.release().await.unwrap();
    assert!(server.owner("k").is_some());
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!((server.owner("k"), server.waiting()), (None, 0));
}

/// Its entry would keep others out for as long as it is there: it has no lease that ends.
#[tokio::test(start_paused = true)]
async fn who_gave_up_during_an_outage_leaves_the_line_after_it() {
    let server = Server::new();
    let (_holder, redlock) = (holds(&server.client()).await, server.client());
    let waiter = waits_for(&redlock, SECOND, Wait::Forever).await;
    server.next("leave", vec![Fate::Refused(NodeErrorKind::Loading, false); 1000]);
    waiter.abort();
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(server.waiting(), 1);
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    server.recovers("leave");
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(server.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_use_the_line_asks_now_and_then() {
    let server = Server::new();
    let (holder, redlock) = (holds(&server.client()).await, server.client());
    let in_the_queue = waits(&redlock).await;
    server.allows_line(false);
    server.disturb();
    let other = waits(&redlock).await;
    tokio::time::sleep(SECOND).await;
    assert!(!in_the_queue.is_finished() && !other.is_finished());
    holder.release().await.unwrap();
    drop(granted(in_the_queue).await);
    drop(granted(other).await);
    assert!(!server.take_verbs().contains(&"rotate".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn those_in_line_are_bounded() {
    let server = Server::new();
    let (_holder, redlock) = (holds(&server.client()).await, client(server.clone(), 2));
    let waiters = [waits(&redlock).await, waits(&redlock).await];
    let error = redlock.lock("k").wait(SECOND).acquire().await.unwrap_err();
    assert_eq!(error, LockError::TooManyWaiters { key: "k".to_owned() });
    assert_eq!((waiters.iter().any(JoinHandle::is_finished), server.waiting()), (false, 1));
}

/// A command with the old length may still land.
#[tokio::test(start_paused = true)]
async fn a_lease_never_grows_under_the_same_owner() {
    let server = Server::new();
    let (holder, redlock) = (holds(&server.client()).await, server.client());
    let hasty = waits_for(&redlock, SECOND, Wait::AtMost(SECOND / 2)).await;
    let patient = waits(&redlock).await;
    assert!(matches!(hasty.await.unwrap(), Err(LockError::Timeout { .. })));
    holder.release().await.unwrap();
    let guard = granted(patient).await;
    let log = server.take_log();
    let owner = guard.owner();
    assert!(log.contains(&format!("join {owner}")), "{log:?}");
    assert!(!log.contains(&format!("acquire {owner}")), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_an_acquire_at_any_time_leaves_nobody_in_the_queue() {
    for millis in 0..40 {
        let server = Server::new();
        let slow = || [Fate::Slow(Duration::from_millis(10)); 2];
        for verb in ["acquire", "join", "look"] {
            server.next(verb, slow());
        }
        let holder = server.set("k", EXPIRE);
        let redlock = server.client();
        tokio::time::sleep(MOMENT).await;
        {
            let mut acquire = pin!(redlock.lock("k").wait(Wait::Forever).acquire());
            let patience = Duration::from_millis(millis);
            let _ = tokio::time::timeout(patience / 2, &mut acquire).await;
            server.free(&holder);
            let _ = tokio::time::timeout(patience / 2, &mut acquire).await;
        }
        tokio::time::sleep(5 * SECOND).await;
        let left = (server.owner("k"), server.waiting());
        assert_eq!(left, (None, 0), "dropped after {millis} ms");
        assert!(redlock.held().is_empty());
    }
}
