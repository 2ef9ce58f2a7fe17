//! Callers of one process who wait together: locks that are passed on, and given to others in
//! between.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND};
use super::fifo_queue::{EXPIRE, MOMENT, Waiter, granted, holds, is_full, waits};
use super::server::Server;
use crate::client::Redlock;
use crate::guard::LockGuard;
use crate::options::Wait;
use crate::state::{LostReason, Released};

/// A client that has the lock with reserved fencing tokens, and two of its callers who wait.
async fn cohort(server: &Arc<Server>) -> (Redlock, LockGuard, Vec<Waiter>) {
    let (first, redlock) = (holds(&server.client()).await, server.client());
    let mut waiters = Vec::new();
    for _ in 0..3 {
        waiters.push(waits(&redlock).await);
    }
    // The queue entry was made for one caller alone; the next attempt is for all of them.
    server.publishes(None);
    first.release().await.unwrap();
    server.remove("k");
    server.publishes(Some(Duration::ZERO));
    server.disturb();
    let guard = granted(waiters.remove(0)).await;
    (redlock, guard, waiters)
}

/// So many callers who wait within a millisecond.
async fn wait_at_once(redlock: &Redlock, count: usize) -> Vec<Waiter> {
    let wait = || tokio::spawn(redlock.lock("k").expire(EXPIRE).wait(Wait::Forever).acquire());
    let waiters = (0..count).map(|_| wait()).collect();
    tokio::time::sleep(MOMENT).await;
    waiters
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
async fn three_callers_who_came_after_an_acquire_need_no_command_either() {
    let server = Server::new();
    let redlock = server.client();
    let guard = holds(&redlock).await;
    let mut waiters = wait_at_once(&redlock, 4).await;
    server.take_log();
    let (owner, mut last) = (guard.owner().to_owned(), guard.fencing_token());
    drop(guard);
    for waiter in waiters.drain(..3) {
        let guard = granted(waiter).await;
        assert_eq!((guard.owner(), Some(guard.fencing_token())), (&*owner, last.after()));
        last = guard.fencing_token();
        drop(guard);
    }
    assert!(is_full(&granted(waiters.remove(0)).await));
    assert_eq!(server.take_verbs(), ["rotate", "release"], "its tokens were used up");
    assert_eq!(server.owner("k"), None);
}

/// An acquire does not see who waits in the queue of the server.
#[tokio::test(start_paused = true)]
async fn others_have_their_turn_two_milliseconds_behind_an_acquire() {
    let server = Server::new();
    let redlock = server.client();
    let guard = holds(&redlock).await;
    let mut waiters = wait_at_once(&redlock, 2).await;
    let other = tokio::spawn(server.client().lock("k").wait(Wait::Forever).acquire());
    tokio::task::yield_now().await;
    drop(guard);
    let second = granted(waiters.remove(0)).await;
    tokio::time::sleep(MOMENT).await;
    assert!(!other.is_finished());
    server.take_log();
    drop(second);
    drop(granted(other).await);
    drop(granted(waiters.remove(0)).await);
    assert_eq!(server.take_verbs(), ["rotate", "release", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_try_that_may_still_land_is_looked_for_behind_the_last_of_its_callers() {
    let server = Server::new();
    let redlock = server.client();
    server.repeats_acquires();
    let guard = holds(&redlock).await;
    let release = format!("release {}", guard.owner());
    let waiter = wait_at_once(&redlock, 1).await.remove(0);
    server.take_log();
    drop(guard);
    let second = granted(waiter).await;
    assert_eq!(server.take_log(), Vec::<String>::new());
    drop(second);
    tokio::time::sleep(SECOND / 2).await;
    let log = server.take_log();
    assert!(log.iter().filter(|line| **line == release).count() > 1, "{log:?}");
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
async fn a_first_try_that_may_still_land_is_looked_for_behind_a_rotate() {
    let server = Server::new();
    let redlock = server.client();
    server.repeats_acquires();
    let guard = holds(&redlock).await;
    let release = format!("release {}", guard.owner());
    let _waits = waits(&redlock).await;
    let other = waits(&server.client()).await;
    tokio::time::sleep(SECOND).await;
    server.take_log();
    drop(guard);
    let _other = granted(other).await;
    let rotated = server.take_log();
    assert!(rotated[0].starts_with("rotate "), "{rotated:?}");
    tokio::time::sleep(SECOND / 2).await;
    let log = [rotated, server.take_log()].concat();
    assert!(log.contains(&release), "{log:?}");
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
        let start = Instant::now();
        let next = granted(waiters.remove(0)).await;
        assert_ne!(next.owner(), owner);
        // Long before the lease of the one before is over.
        assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
        drop(next);
        drop(granted(waiters.remove(0)).await);
        assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
        assert_eq!((server.owner("k"), server.waiting()), (None, 0));
    }
}

/// It may have put the next owner into the queue, whose callers leave.
#[tokio::test(start_paused = true)]
async fn a_rotate_without_an_answer_leaves_no_entry_without_a_caller() {
    let server = Server::new();
    let (redlock, guard, waiters) = cohort(&server).await;
    let other = waits(&server.client()).await;
    tokio::time::sleep(SECOND).await;
    server.next("rotate", [Fate::LostReply]);
    drop(guard);
    let other = granted(other).await;
    waiters.iter().for_each(Waiter::abort);
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(server.owner("k").as_deref(), Some(other.owner()));
    assert_eq!(server.waiting(), 0);
}

/// The first run has passed the lock on, and put the next owner into the queue.
#[tokio::test(start_paused = true)]
async fn a_rotate_that_was_sent_again_leaves_no_entry_without_a_caller() {
    let server = Server::new();
    let (_redlock, guard, mut waiters) = cohort(&server).await;
    let other = waits(&server.client()).await;
    tokio::time::sleep(SECOND).await;
    server.next("rotate", [Fate::SentAgain]);
    drop(guard);
    let other = granted(other).await;
    tokio::time::sleep(50 * MOMENT).await;
    assert_eq!(server.waiting(), 1, "those who wait here have one entry");
    let start = Instant::now();
    drop(other);
    drop(granted(waiters.remove(0)).await);
    assert!(start.elapsed() < 10 * MOMENT, "{:?}", start.elapsed());
}

/// It may have been carried out, and keeps the lock for another lease of its owner.
#[tokio::test(start_paused = true)]
async fn a_release_outlasts_a_rotate_without_an_answer() {
    let server = Server::new();
    let (redlock, guard, waiters) = cohort(&server).await;
    let (owner, lease) = (guard.owner().to_owned(), server.left("k"));
    tokio::time::sleep(lease / 2).await;
    server.next("rotate", [Fate::LostReply]);
    for verb in ["release", "give_back"] {
        server.next(verb, vec![Fate::LostRequest; 10_000]);
    }
    drop(guard);
    tokio::time::sleep(lease / 4).await;
    waiters.iter().for_each(Waiter::abort);
    tokio::time::sleep(lease * 3 / 10).await;
    assert_eq!(server.owner("k"), Some(owner), "it was kept");
    server.recovers("release");
    server.recovers("give_back");
    assert_eq!(redlock.shutdown(lease * 2 / 5).await, 0);
    assert_eq!(server.owner("k"), None);
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
        // The loss wakes the poller, whose attempt is still on its way when the guard goes.
        for verb in ["acquire", "join"] {
            server.next(verb, [Fate::Slow(MOMENT)]);
        }
        assert_eq!(guard.lost().await, reason);
        server.take_log();
        drop(guard);
        let next = granted(waiters.remove(0)).await;
        assert_ne!(next.owner(), owner);
        assert_eq!(server.owner("k").as_deref(), Some(next.owner()));
        tokio::time::sleep(20 * MOMENT).await;
        let log = server.take_log();
        let is_release = |line: &str| line.starts_with("release") || line.starts_with("give_back");
        let goes_on = |line: &&String| line.ends_with(&owner) && !is_release(line);
        assert_eq!(log.iter().find(goes_on), None, "{reason}: its owner asks for nothing more");
    }
}

/// Nobody else does: the server had nothing to hand over.
#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_lock_wakes_those_who_wait_here() {
    let server = Server::new();
    let redlock = server.client();
    let guard = holds(&redlock).await;
    let waiter = waits(&redlock).await;
    server.remove("k");
    assert_eq!(guard.lost().await, LostReason::Expired);
    let start = Instant::now();
    drop(guard);
    drop(granted(waiter).await);
    assert!(start.elapsed() <= MOMENT, "{:?}", start.elapsed());
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
