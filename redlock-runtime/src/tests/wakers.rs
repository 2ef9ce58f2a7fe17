//! Callers whose wakers panic: nobody else pays for that.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};

use tokio::time::{Instant, sleep};

use super::fake::{SECOND, fake};
use crate::lease::Lease;
use crate::state::{LeaseState, Released};

/// Counts how often it was called.
#[derive(Default)]
pub(super) struct Panics(pub(super) AtomicU32);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("a waker panics on purpose");
    }
}

fn waker() -> (Arc<Panics>, Waker) {
    let panics = Arc::<Panics>::default();
    (Arc::clone(&panics), panics.into())
}

#[tokio::test(start_paused = true)]
async fn other_waiters_of_the_lock_are_served() {
    let (redlock, _) = fake();
    let holder = redlock.lock("k").acquire().await.unwrap();
    let (called, waker) = waker();
    let first = pin!(redlock.lock("k").acquire());
    assert!(first.poll(&mut Context::from_waker(&waker)).is_pending());
    // Its time is up while others wait.
    let brief = pin!(redlock.lock("k").wait(SECOND).acquire());
    assert!(brief.poll(&mut Context::from_waker(&waker)).is_pending());
    let second = tokio::spawn(redlock.lock("k").wait(20 * SECOND).acquire());
    sleep(3 * SECOND).await;
    let released = Instant::now();
    holder.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    // What the first one does not take is taken back after the claim window.
    assert!(released.elapsed() < 2 * SECOND, "{:?}", released.elapsed());
    assert_eq!(called.0.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn other_leases_are_renewed() {
    let (redlock, _) = fake();
    let other = redlock.lock("other").expire(3 * SECOND).acquire().await.unwrap();
    let short = redlock.lock("short").expire(SECOND).max_renew(0).acquire().await.unwrap();
    let (called, waker) = waker();
    let lost = pin!(short.lost());
    assert!(lost.poll(&mut Context::from_waker(&waker)).is_pending());
    sleep(20 * SECOND).await;
    assert_eq!((short.state(), other.state()), (LeaseState::Lost, LeaseState::Held));
    assert!(other.renewals() > 5);
    assert_eq!(called.0.load(Ordering::Relaxed), 1);
}

/// A caller whose waker panics waits for its turn inside of a hold; the one before it ends.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_all_the_same() {
    let (redlock, _) = fake();
    let body = async {
        let turn = redlock.lock("k").acquire().await.unwrap();
        let (called, waker) = waker();
        let mut next = pin!(Lease::current().unwrap().scope(redlock.lock("k").acquire()));
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(turn);
        assert_eq!(called.0.load(Ordering::Relaxed), 1);
        drop(next.await.unwrap());
        drop(redlock.lock("k").acquire().await.unwrap());
    };
    redlock.lock("k").run(body).await.unwrap();
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_holder_lets_go_all_the_same() {
    let (redlock, _) = fake();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let lease = guard.lease().clone();
    let (called, waker) = waker();
    let lost = pin!(lease.lost());
    assert!(lost.poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!(called.0.load(Ordering::Relaxed), 1);
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_some());
}
