//! Waiting in line: locks that are passed on, handed over, claimed, and given up.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::fake::{Fate, client};
use super::server::Server;
use crate::backend::CLAIM_WINDOW;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::guard::LockGuard;
use crate::options::Wait;
use crate::state::{LostReason, Released};

const SECOND: Duration = Duration::from_secs(1);
const EXPIRE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

/// Somebody who waits for as long as it takes; it has its place when this returns.
async fn waits(redlock: &Redlock) -> JoinHandle<Result<LockGuard, LockError>> {
    waits_for(redlock, EXPIRE, Wait::Forever).await
}

async fn waits_for(
    redlock: &Redlock,
    expire: Duration,
    wait: Wait,
) -> JoinHandle<Result<LockGuard, LockError>> {
    let waiter = tokio::spawn(redlock.lock("k").expire(expire).wait(wait).acquire());
    tokio::time::sleep(MOMENT).await;
    waiter
}

async fn granted(waiter: JoinHandle<Result<LockGuard, LockError>>) -> LockGuard {
    waiter.await.unwrap().unwrap()
}

async fn holds(redlock: &Redlock) -> LockGuard {
    redlock.lock("k").expire(EXPIRE).acquire().await.unwrap()
}

/// A full lease, as far as callers care.
fn is_full(guard: &LockGuard) -> bool {
    guard.remaining() >= EXPIRE * 8 / 10
}

/// A client that has the lock with reserved fencing tokens, and two of its callers who wait.
async fn cohort(
    server: &Arc<Server>,
) -> (Redlock, LockGuard, Vec<JoinHandle<Result<LockGuard, LockError>>>) {
    let (first, redlock) = (holds(&server.client()).await, server.client());
    let mut waiters = Vec::new();
    for _ in 0..3 {
        waiters.push(waits(&redlock).await);
    }
    // The place in line was taken for one caller alone; the next question is for all of them.
    server.publishes(None);
    first.release().await.unwrap();
    server.remove("k");
    server.publishes(Some(Duration::ZERO));
    server.disturb();
    let guard = granted(waiters.remove(0)).await;
    (redlock, guard, waiters)
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_process_pass_the_lock_on_without_a_command() {
    let server = Server::new();
    let (_redlock, guard, waiters) = cohort(&server).await;
    server.take_log();
    let (owner, mut last) = (guard.owner().to_owned(), guard.fencing_token());
    drop(guard);
    for waiter in waiters {
        let guard = granted(waiter).await;
        assert_eq!(guard.owner(), owner);
        assert!(guard.fencing_token() > last, "{}", guard.fencing_token());
        assert!(is_full(&guard), "{:?}", guard.remaining());
        last = guard.fencing_token();
        assert_eq!(server.take_log(), Vec::<String>::new());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
    assert_eq!(server.take_verbs(), ["give_back"]);
    assert_eq!(server.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_while_the_lock_is_passed_to_it_does_not_keep_it() {
    let server = Server::new();
    let (_redlock, guard, mut waiters) = cohort(&server).await;
    // In one step: nobody runs between the pass and the end of the one it goes to.
    drop(guard);
    waiters.remove(0).abort();
    let next = granted(waiters.remove(0)).await;
    assert!(next.check().is_ok());
    drop(next);
    assert_eq!(server.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_is_exactly_one_rotate() {
    let server = Server::new();
    let (_redlock, guard, mut waiters) = cohort(&server).await;
    let (owner, last) = (guard.owner().to_owned(), guard.fencing_token());
    tokio::time::sleep(SECOND).await;
    server.take_log();
    drop(guard);
    // Nobody else waits: it stays, and everything is new but the owner.
    let kept = granted(waiters.remove(0)).await;
    assert_eq!(server.take_log(), [format!("rotate {owner}")]);
    assert_eq!(kept.owner(), owner);
    assert!(is_full(&kept) && kept.fencing_token() > last);
    drop(kept);
    drop(granted(waiters.remove(0)).await);
    assert_eq!(server.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn others_have_the_lock_after_a_rotate_and_the_process_waits_behind_them() {
    let server = Server::new();
    let (_redlock, guard, mut waiters) = cohort(&server).await;
    let other = waits(&server.client()).await;
    tokio::time::sleep(SECOND).await;
    let (owner, last) = (guard.owner().to_owned(), guard.fencing_token());
    drop(guard);
    let other = granted(other).await;
    assert!(other.fencing_token() > last);
    tokio::time::sleep(MOMENT).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()) && server.waiting() == 1);
    let last = other.fencing_token();
    drop(other);
    let back = granted(waiters.remove(0)).await;
    assert!(back.owner() != owner && back.fencing_token() > last);
}

#[tokio::test(start_paused = true)]
async fn after_a_rotate_without_an_answer_everyone_starts_again_with_a_fresh_owner() {
    for fate in [Fate::LostReply, Fate::LostRequest] {
        let server = Server::new();
        let (redlock, guard, mut waiters) = cohort(&server).await;
        tokio::time::sleep(SECOND).await;
        let owner = guard.owner().to_owned();
        server.next("rotate", [fate]);
        drop(guard);
        let next = granted(waiters.remove(0)).await;
        assert_ne!(next.owner(), owner);
        drop(next);
        drop(granted(waiters.remove(0)).await);
        assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
        assert_eq!((server.owner("k"), server.waiting()), (None, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_lost_is_not_passed_on() {
    for reason in [LostReason::Expired, LostReason::Unreachable] {
        let server = Server::new();
        let (_redlock, guard, mut waiters) = cohort(&server).await;
        let owner = guard.owner().to_owned();
        match reason {
            LostReason::Expired => server.remove("k"),
            _ => server.next("renew", [Fate::LostRequest; 100]),
        }
        assert_eq!(guard.lost().await, reason);
        server.take_log();
        drop(guard);
        let next = granted(waiters.remove(0)).await;
        assert_ne!(next.owner(), owner);
        assert_eq!(server.owner("k").as_deref(), Some(next.owner()));
        assert!(!server.take_verbs().contains(&"rotate".to_owned()), "{reason}");
    }
}

/// Its holder has not heard of it yet.
#[tokio::test(start_paused = true)]
async fn a_rotate_that_finds_the_lock_gone_begins_anew() {
    let server = Server::new();
    let (_redlock, guard, mut waiters) = cohort(&server).await;
    tokio::time::sleep(SECOND).await;
    let owner = guard.owner().to_owned();
    server.remove("k");
    drop(guard);
    assert_ne!(granted(waiters.remove(0)).await.owner(), owner);
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
    assert!(guard.remaining() < CLAIM_WINDOW && guard.remaining() > CLAIM_WINDOW / 2);
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
        server.take_log();
        tokio::time::sleep(20 * MOMENT).await;
        assert_eq!(server.take_verbs(), ["renew"]);
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
    assert!(start.elapsed() < CLAIM_WINDOW, "{:?}", start.elapsed());
    assert_eq!(server.owner("k").as_deref(), Some(guard.owner()));
}

#[tokio::test(start_paused = true)]
async fn whoever_hears_late_claims_before_the_body_begins() {
    // After the wait, the lease is counted from the join; or the message itself is late.
    for (wait, delay) in [(SECOND / 2, Duration::ZERO), (MOMENT, CLAIM_WINDOW / 2)] {
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
async fn a_claim_that_is_refused_joins_anew_with_a_fresh_owner() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits(&server.client()).await;
    server.publishes(Some(CLAIM_WINDOW + SECOND / 10));
    holder.release().await.unwrap();
    let called = server.owner("k").unwrap();
    tokio::time::sleep(CLAIM_WINDOW).await;
    let rival = server.set("k", EXPIRE);
    server.publishes(Some(Duration::ZERO));
    tokio::time::sleep(SECOND / 5).await;
    assert!(!waiter.is_finished() && server.waiting() == 1);
    server.free(&rival);
    assert_ne!(granted(waiter).await.owner(), called);
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
    // The look finds a line that does not know it any more: its owner has had its turn.
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

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_use_the_line_asks_now_and_then() {
    let server = Server::new();
    let (holder, redlock) = (holds(&server.client()).await, server.client());
    let in_line = waits(&redlock).await;
    server.deny();
    server.disturb();
    let other = waits(&redlock).await;
    tokio::time::sleep(SECOND).await;
    assert!(!in_line.is_finished() && !other.is_finished());
    holder.release().await.unwrap();
    drop(granted(in_line).await);
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
    let short = waits_for(&redlock, SECOND, Wait::AtMost(SECOND / 2)).await;
    let long = waits(&redlock).await;
    assert!(matches!(short.await.unwrap(), Err(LockError::Timeout { .. })));
    holder.release().await.unwrap();
    let guard = granted(long).await;
    let log = server.take_log();
    let owner = guard.owner();
    assert!(log.contains(&format!("join {owner}")), "{log:?}");
    assert!(!log.contains(&format!("acquire {owner}")), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_an_acquire_at_any_time_leaves_nobody_in_line() {
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
