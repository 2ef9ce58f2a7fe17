//! `max_renew`: a body that takes too long is stopped, in time and tidily.

use std::future::pending;
use std::sync::Mutex;

use redlock::{Lease, LockError, LostReason, Redlock, redis_lock};

use crate::clients::client;
use crate::support::{eventually, secs};

/// At its drop: did the lease still hold?
struct Local<'a> {
    lease: Lease,
    log: &'a Mutex<Vec<(&'static str, bool)>>,
    name: &'static str,
}

impl Drop for Local<'_> {
    fn drop(&mut self) {
        let is_before_release = match self.lease.check() {
            Err(LockError::Lost { reason, .. }) => reason != LostReason::Released,
            _ => true,
        };
        self.log.lock().unwrap().push((self.name, is_before_release));
    }
}

#[redis_lock(key = "k", expire = "200ms", max_renew = 0, client = redlock)]
async fn hangs(redlock: &Redlock, log: &Mutex<Vec<(&'static str, bool)>>) -> Result<(), LockError> {
    let lease = Lease::current().unwrap();
    let _first = Local { lease: lease.clone(), log, name: "first" };
    let _second = Local { lease, log, name: "second" };
    pending().await
}

#[redis_lock(key = "k", expire = "6s", max_renew = 2, client = redlock)]
async fn hangs_longer(redlock: &Redlock) -> Result<(), LockError> {
    pending().await
}

#[redis_lock(key = "k", expire = "6s", max_renew = 1_000, client = redlock)]
async fn is_done_in_time(redlock: &Redlock) -> Result<u32, LockError> {
    let lease = Lease::current().unwrap();
    eventually(secs(30), || async { lease.renewals() >= 2 }).await;
    Ok(lease.renewals())
}

#[track_caller]
fn stopped_after(outcome: Result<(), LockError>) -> u32 {
    match outcome {
        Err(LockError::Lost { reason: LostReason::RenewalLimit, renewals, .. }) => renewals,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lease_without_renewals_stops_the_body() {
    let redlock = client().await;
    let log = Mutex::new(Vec::new());
    let outcome = tokio::time::timeout(secs(20), hangs(&redlock, &log)).await;
    assert_eq!(stopped_after(outcome.expect("it is stopped")), 0);
    assert_eq!(log.into_inner().unwrap(), [("second", true), ("first", true)]);
    drop(redlock.lock("k").acquire().await.expect("and free again"));
}

#[tokio::test]
async fn the_body_is_stopped_after_the_last_renewal() {
    let redlock = client().await;
    let outcome = tokio::time::timeout(secs(60), hangs_longer(&redlock)).await;
    assert_eq!(stopped_after(outcome.expect("it is stopped")), 2);
}

#[tokio::test]
async fn a_body_that_is_done_in_time_is_not_disturbed() {
    assert!(is_done_in_time(&client().await).await.unwrap() >= 2);
}

/// Nobody polls it any more: a loop that would go on for ever does not.
#[tokio::test]
async fn a_stopped_body_takes_no_further_step() {
    #[redis_lock(key = "k", expire = "200ms", max_renew = 0, client = redlock)]
    async fn steps(redlock: &Redlock, late: &Mutex<u32>) -> Result<(), LockError> {
        let lease = Lease::current().unwrap();
        loop {
            tokio::task::yield_now().await;
            // Between the look of the wrapper and this one only this thread's own time passes.
            if lease.check().is_err() {
                *late.lock().unwrap() += 1;
            }
        }
    }
    let late = Mutex::new(0);
    let redlock = client().await;
    let outcome = tokio::time::timeout(secs(20), steps(&redlock, &late)).await;
    stopped_after(outcome.expect("it is stopped"));
    assert!(late.into_inner().unwrap() <= 1, "at most the step that was under way");
}
