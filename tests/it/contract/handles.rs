//! What guards, leases and snapshots say about a held lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redlock::{Lease, LeaseState, LockError, LostReason};

use super::place::{KEY, Place};
use crate::support::{ms, secs};

pub async fn held_lists_what_is_held(place: &Place) {
    let client = place.client().await;
    assert!(client.held().is_empty());
    let request = |key: &str| client.lock(key).expire(secs(20));
    let first = request("b").acquire().await.unwrap();
    let second = request("a").acquire().await.unwrap();
    let held = client.held();
    assert_eq!(held.iter().map(redlock::HeldLock::key).collect::<Vec<_>>(), ["b", "a"]);
    let one = &held[0];
    assert_eq!(one.redis_key(), place.full("b"));
    assert_eq!((one.owner(), one.fencing_token()), (first.owner(), first.fencing_token()));
    assert_eq!((one.state(), one.renewals()), (LeaseState::Held, 0));
    assert!(one.remaining() <= secs(19) && one.remaining() > secs(5), "{one:?}");
    assert!(one.held_for() < secs(10), "{one:?}");
    assert!(place.client().await.held().is_empty(), "of this client only");
    drop(first);
    assert_eq!(client.held().len(), 1, "as soon as the guard is gone");
    second.release().await.unwrap();
    assert!(client.held().is_empty());
}

pub async fn a_lease_reads_the_state_of_its_lock(place: &Place) {
    let (_, guard) = place.held().await;
    let lease: Lease = guard.lease().clone();
    assert_eq!((lease.key(), lease.redis_key()), (KEY, &*place.full(KEY)));
    assert_eq!((lease.owner(), lease.fencing_token()), (guard.owner(), guard.fencing_token()));
    assert_eq!((lease.state(), lease.renewals()), (LeaseState::Held, 0));
    assert!(lease.remaining() > secs(1));
    lease.check().unwrap();
    let waiting = tokio::spawn(async move { lease.lost().await });
    place.steal(KEY, secs(60)).await;
    let other = place.client().await;
    assert!(other.lock(KEY).try_acquire().await.unwrap().is_none());
    drop(guard);
    let over = tokio::time::timeout(secs(10), waiting).await.expect("resolves at the release");
    assert_eq!(over.unwrap(), LostReason::Released);
}

pub async fn a_released_lease_is_over(place: &Place) {
    let (_, guard) = place.held().await;
    let lease = guard.lease().clone();
    guard.release().await.unwrap();
    assert_eq!((lease.state(), lease.remaining()), (LeaseState::Lost, ms(0)));
    let error = lease.check().unwrap_err();
    assert!(
        matches!(&error, LockError::Lost { key, reason: LostReason::Released, .. } if key == KEY),
        "{error:?}"
    );
    assert!(Lease::current().is_none());
}

pub async fn protect_runs_a_future_under_the_lease(place: &Place) {
    let (_, guard) = place.held().await;
    let seen = guard.protect(async {
        tokio::task::yield_now().await;
        Lease::current().map(|lease| lease.owner().to_owned())
    });
    assert_eq!(seen.await.unwrap().as_deref(), Some(guard.owner()));
    assert!(Lease::current().is_none(), "outside again");
    guard.check().expect("the guard still holds");
}

pub async fn protect_stops_with_the_lease(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(ms(200)).max_renew(0).acquire().await.unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    let outcome = guard.protect(async move {
        let _local = OnDrop(flag);
        std::future::pending::<()>().await;
    });
    let outcome = tokio::time::timeout(secs(10), outcome).await.expect("it is stopped");
    assert!(dropped.load(Ordering::SeqCst), "its locals are gone");
    match outcome.unwrap_err() {
        LockError::Lost { key, reason, renewals, held_for, .. } => {
            assert_eq!((&*key, reason, renewals), (KEY, LostReason::RenewalLimit, 0));
            assert!(held_for >= ms(180), "{held_for:?}");
        }
        other => panic!("{other:?}"),
    }
    let unpolled = AtomicBool::new(true);
    let again = guard.protect(async { unpolled.store(false, Ordering::SeqCst) }).await;
    assert!(matches!(again, Err(LockError::Lost { .. })) && unpolled.into_inner());
}

pub async fn a_dropped_protect_keeps_the_lock(place: &Place) {
    let (_, guard) = place.held().await;
    let protect = guard.protect(std::future::pending::<()>());
    tokio::time::timeout(ms(1), protect).await.unwrap_err();
    guard.check().unwrap();
    assert_eq!(place.owner(KEY).await.as_deref(), Some(guard.owner()));
}

/// Says that it was dropped.
pub struct OnDrop(pub Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
