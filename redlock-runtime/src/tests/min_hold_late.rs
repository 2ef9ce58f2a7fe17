//! `min_hold`: what arrives late, and who comes late.

use std::future::poll_fn;
use std::task::Poll;

use tokio::time::Instant;

use super::fake::{Fate, SECOND, fake};
use super::min_hold::{EXPIRE, MIN_HOLD, job};
use super::server::Server;
use crate::options::Wait;

/// Renewals ask for what is left of `min_hold`, hence for ever shorter leases. One that arrives
/// behind the hold must not cut the lease of the next caller, which has another owner value.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_cuts_no_lease_of_the_next_caller() {
    let server = Server::new();
    let redlock = server.client();
    let start = Instant::now();
    let guard = job(&redlock).acquire().await.unwrap();
    let next = redlock.lock("k").expire(MIN_HOLD).wait(Wait::Forever);
    let next = tokio::spawn(next.acquire());
    // The last one leaves when two thirds of the lease are over for the fifth time.
    tokio::time::sleep_until(start + MIN_HOLD - SECOND).await;
    server.take_log();
    server.next("renew", [Fate::Late(SECOND / 5)]);
    tokio::time::sleep_until(start + MIN_HOLD + SECOND / 20).await;
    assert!(server.take_verbs().contains(&"renew".to_owned()));
    drop(guard);
    let _guard = next.await.unwrap().unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(server.left("k") > 8 * SECOND, "{:?}", server.left("k"));
}

/// The caller is polled when the lease is over already: nothing has run under the lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_its_caller_comes_too_late_for_is_free() {
    let (redlock, fake) = fake();
    let held = redlock.lock("k").acquire().await.unwrap();
    let mut waits = Box::pin(job(&redlock).wait(Wait::AtMost(EXPIRE)).acquire());
    assert!(tokio::time::timeout(SECOND, &mut waits).await.is_err());
    held.release().await.unwrap();
    tokio::time::sleep(SECOND / 2).await;
    let granted = fake.store.owner("k").expect("it was granted to the waiter");
    // The process stands still, and this caller is the first to run.
    let mut passes = Box::pin(tokio::time::advance(EXPIRE));
    let _ = poll_fn(|cx| Poll::Ready(passes.as_mut().poll(cx))).await;
    // It asks once more.
    fake.next_acquires([Fate::LostRequest]);
    assert!(poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await.is_pending());
    drop((passes, waits));
    tokio::time::sleep(SECOND / 2).await;
    let owner = fake.store.owner("k");
    assert!(owner.is_none(), "{owner:?} after {granted}");
}
