//! What a call that waited in vain learns: who has the lock, for how long, and its own place.

use std::num::NonZeroU32;
use std::time::Duration;

use super::fake::fake;
use super::fifo_queue::{EXPIRE, holds, waits, waits_for};
use super::server::Server;
use crate::error::LockError;
use crate::options::Wait;

const SECOND: Duration = Duration::from_secs(1);

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
