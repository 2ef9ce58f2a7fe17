//! A lease is renewed until it is released, lost or used up.

use std::time::Duration;

use redlock::{LeaseState, LockError, LockGuard, LostReason, Wait};

use super::place::{KEY, Place};
use crate::support::{eventually, ms, secs};

/// A machine that is busy with other tests stands still for less than the third of it that is left
/// when a renewal is due.
const KEPT: Duration = secs(6);

async fn lost(guard: &LockGuard) -> LostReason {
    tokio::time::timeout(secs(30), guard.lost()).await.expect("the holder is told")
}

#[track_caller]
fn assert_lost(guard: &LockGuard, expected: LostReason, confirmed: u32) {
    match guard.check().unwrap_err() {
        LockError::Lost { key, reason, renewals, .. } => {
            assert_eq!((&*key, reason, renewals), (KEY, expected, confirmed));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((guard.state(), guard.remaining()), (LeaseState::Lost, ms(0)));
}

pub async fn a_lease_is_renewed_for_as_long_as_it_is_held(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(KEPT).acquire().await.unwrap();
    let (owner, fencing_token) = (guard.owner().to_owned(), guard.fencing_token());
    eventually(secs(30), || async { guard.renewals() >= 2 }).await;
    guard.check().unwrap();
    assert_eq!((guard.owner(), guard.fencing_token()), (&*owner, fencing_token));
    assert_eq!(place.owner(KEY).await, Some(owner), "longer than one lease");
    assert!(client.held()[0].renewals() >= 2);
    guard.release().await.unwrap();
    assert!(place.is_free(KEY).await);
}

pub async fn the_last_renewal_ends_the_lease(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(KEPT).max_renew(1).acquire().await.unwrap();
    assert_eq!(lost(&guard).await, LostReason::RenewalLimit);
    assert_lost(&guard, LostReason::RenewalLimit, 1);
    let error = guard.check().unwrap_err().to_string();
    assert!(error.contains("raise `max_renew`"), "{error}");
}

pub async fn no_renewals_at_all(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(ms(200)).max_renew(0).acquire().await.unwrap();
    assert_eq!(lost(&guard).await, LostReason::RenewalLimit);
    assert_lost(&guard, LostReason::RenewalLimit, 0);
}

pub async fn a_stolen_lease_is_lost(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(secs(2)).acquire().await.unwrap();
    place.steal(KEY, secs(60)).await;
    assert_eq!(lost(&guard).await, LostReason::Stolen);
    assert_lost(&guard, LostReason::Stolen, 0);
    drop(guard);
    assert_eq!(client.shutdown(secs(10)).await, 0);
    assert_eq!(place.owner(KEY).await.as_deref(), Some("thief"), "never extended, never deleted");
}

pub async fn a_vanished_lease_is_lost(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(secs(2)).acquire().await.unwrap();
    place.remove(KEY).await;
    assert_eq!(lost(&guard).await, LostReason::Expired);
    assert_lost(&guard, LostReason::Expired, 0);
    assert!(place.is_free(KEY).await, "a renewal never makes the key anew");
}

/// The guard of a lost lease may live on: it is in nobody's way.
pub async fn a_lost_lease_frees_the_key_by_itself(place: &Place) {
    let client = place.client().await;
    let guard = client.lock(KEY).expire(ms(200)).max_renew(0).acquire().await.unwrap();
    let next = client.lock(KEY).wait(Wait::Forever).acquire();
    let next = tokio::time::timeout(secs(15), next).await.expect("free").unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert_lost(&guard, LostReason::RenewalLimit, 0);
    drop(guard);
    assert_eq!(client.shutdown(secs(10)).await, 0);
    assert_eq!(place.owner(KEY).await.as_deref(), Some(next.owner()), "not the latecomer's");
}
