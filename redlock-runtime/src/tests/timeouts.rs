//! What a call that waited in vain learns: who has the lock, for how long, and its own place.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, MINUTE, SECOND, fake};
use super::fifo_queue::{EXPIRE, MOMENT, granted, holds, waits, waits_for};
use super::server::Server;
use crate::client::Redlock;
use crate::error::LockError;
use crate::options::Wait;

/// By how much a call may exceed its wait.
const LAST_ATTEMPT: Duration = Duration::from_millis(250);

/// The time that the holder has left, and the place of the call.
fn known(error: &LockError) -> (Option<Duration>, Option<u32>) {
    let LockError::Timeout { remaining, position, .. } = error else { panic!("{error}") };
    (*remaining, position.map(NonZeroU32::get))
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_holder_has_left() {
    let (redlock, fake) = fake();
    fake.store.set("k", "somebody", 60 * SECOND);
    let at_once = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err();
    assert_eq!(known(&at_once), (Some(60 * SECOND), None));
    assert!(at_once.to_string().contains("somebody, whose lease has 60.0 s left"), "{at_once}");
    let later = redlock.lock("k").wait(20 * SECOND).acquire().await.unwrap_err();
    let (Some(left), None) = known(&later) else { panic!("{later}") };
    assert!((39 * SECOND..=40 * SECOND).contains(&left), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn the_place_in_the_queue_of_the_server_and_of_the_process() {
    let server = Server::new();
    let (_holder, other) = (holds(&server.client()).await, server.client());
    let ours = server.client();
    let _before = waits(&other).await;
    let first = waits_for(&ours, EXPIRE, Wait::AtMost(5 * SECOND)).await;
    let second = waits_for(&ours, EXPIRE, Wait::AtMost(3 * SECOND)).await;
    // The lease is that of the last look, less the time since.
    for (waiter, place) in [(second, 3), (first, 2)] {
        let error = waiter.await.unwrap().unwrap_err();
        let (Some(left), position) = known(&error) else { panic!("{error}") };
        assert_eq!(position, Some(place), "{error}");
        assert!(left > EXPIRE / 3 && left < EXPIRE, "{left:?}");
        assert!(error.to_string().contains(&format!("; place {place} of the queue; wait")));
    }
}

/// The process knows who has the lock, whether the server answers its question or not.
#[tokio::test(start_paused = true)]
async fn a_holder_of_the_same_process_is_named_without_an_answer() {
    let (redlock, fake) = fake();
    for keys in [&["k"][..], &["j", "k"]] {
        let held = redlock.lock_all(keys).acquire().await.unwrap();
        let owner = fake.store.owner("k");
        fake.always(Some(Fate::Slow(MINUTE)));
        let wait = Duration::from_millis(20);
        let error = redlock.lock("k").wait(wait).acquire().await.unwrap_err();
        fake.always(None);
        let LockError::Timeout { holder, .. } = &error else { panic!("{error}") };
        assert!(owner.is_some() && *holder == owner, "{error}");
        held.release().await.unwrap();
    }
}

/// An answer of long ago tells nothing of a lease that was renewed since.
#[tokio::test(start_paused = true)]
async fn an_old_answer_is_not_told_as_news() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let waiter = waits_for(&server.client(), EXPIRE, Wait::AtMost(3 * EXPIRE)).await;
    let error = waiter.await.unwrap().unwrap_err();
    assert!(holder.renewals() > 2 && holder.check().is_ok());
    assert!(known(&error).0.is_none_or(|left| left <= EXPIRE), "{error}");
}

/// A server so far away, whose lock somebody else has.
fn far(round_trip: Duration) -> Arc<Server> {
    let server = Server::new();
    for verb in ["acquire", "acquire_all", "join", "look", "leave", "release"] {
        server.next(verb, [Fate::Slow(round_trip); 100]);
    }
    server
}

/// A call that is refused, and ends soon after its wait.
async fn refused(redlock: &Redlock, key: &str, wait: Duration) -> LockError {
    let start = Instant::now();
    let error = redlock.lock(key).wait(wait).acquire().await.unwrap_err();
    assert!(start.elapsed() <= wait + LAST_ATTEMPT + MOMENT, "{:?}: {error}", start.elapsed());
    error
}

/// The answer to its last attempt comes too late for each of these calls. Each of them has had
/// another one.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_seen_held_is_busy_however_far_its_server_is() {
    for round_trip in [300, 400, 700, 900].map(Duration::from_millis) {
        for wait in [SECOND, 2 * SECOND, 5 * SECOND] {
            let server = far(round_trip);
            server.set("k", 60 * SECOND);
            let queued = refused(&server.client(), "k", wait).await;
            let (redlock, fake) = fake();
            fake.always(Some(Fate::Slow(round_trip)));
            fake.store.set("k", "somebody", 60 * SECOND);
            let polled = refused(&redlock, "k", wait).await;
            for error in [queued, polled] {
                assert!(error.is_busy(), "{round_trip:?}, {wait:?}: {error}");
                assert!(error.to_string().contains("held by somebody"), "{error}");
            }
        }
    }
}

/// The poller that serves a call may be there already, and have asked for others only.
#[tokio::test(start_paused = true)]
async fn a_call_knows_what_it_was_told_before_the_poller_asked_for_it() {
    let server = Server::new();
    let (other, redlock) = (server.client(), server.client());
    let holder = holds(&other).await;
    let waiter = waits(&redlock).await;
    holder.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    holds(&redlock).await.release().await.unwrap();
    tokio::time::sleep(MOMENT).await;
    server.set("k", 60 * SECOND);
    for verb in ["acquire", "join"] {
        server.next(verb, [Fate::Slow(Duration::from_millis(700))]);
    }
    server.take_log();
    let error = refused(&redlock, "k", SECOND).await;
    assert_eq!(server.take_verbs()[..2], ["acquire", "join"]);
    assert!(error.to_string().contains("held by somebody"), "{error}");
}

/// What ends a wait is no answer: nobody knows who has the lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_was_seen_to_hold_is_not_called_busy() {
    let wait = SECOND / 10;
    let server = far(2 * LAST_ATTEMPT);
    server.set("k", 60 * SECOND);
    let error = refused(&server.client(), "k", wait).await;
    assert!(error.is_unavailable() && error.to_string().contains("within 350 ms"), "{error}");
    let redlock = server.client();
    let (first, second) = tokio::join!(refused(&redlock, "k", wait), refused(&redlock, "k", wait));
    for error in [first, second] {
        assert!(error.is_unavailable(), "{error}");
    }
}

/// A server that has not answered within the `reply_timeout` is out, whatever it had said before.
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_unavailable() {
    let server = Server::new();
    server.set("k", 60 * SECOND);
    let redlock = server.client();
    assert!(refused(&redlock, "k", SECOND).await.is_busy());
    for verb in ["join", "look", "leave"] {
        server.next(verb, [Fate::LostRequest; 100]);
    }
    assert!(refused(&redlock, "k", 3 * SECOND).await.is_unavailable());
    assert!(refused(&server.client(), "k", 3 * SECOND).await.is_unavailable());
}

/// The lock is claimed for another caller of its process meanwhile, and the server is slow.
#[tokio::test(start_paused = true)]
async fn a_call_that_comes_during_a_claim_waits_no_longer_than_it_may() {
    let server = Server::new();
    let (holder, redlock) = (holds(&server.client()).await, server.client());
    let waiter = waits(&redlock).await;
    tokio::time::sleep(SECOND * 6 / 10).await;
    server.next("acquire", [Fate::Slow(SECOND * 9 / 10)]);
    holder.release().await.unwrap();
    tokio::time::sleep(MOMENT).await;
    refused(&redlock, "k", SECOND / 2).await;
    drop(granted(waiter).await);
}
