//! `LockRequest::run`: a future under a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redlock::{Lease, LockError, LostReason, Wait};

use super::handles::OnDrop;
use super::place::{KEY, Place};
use crate::clients::holder;
use crate::support::{capture, ms, secs};

pub async fn a_future_runs_under_the_lock(place: &Place) {
    let client = place.client().await;
    let seen = client.lock(KEY).run(async {
        let lease = Lease::current().unwrap();
        lease.check().unwrap();
        assert_eq!(place.owner(KEY).await.as_deref(), Some(lease.owner()));
        lease.fencing_token()
    });
    let first = seen.await.unwrap();
    let second = client.lock(KEY).run(async { Lease::current().unwrap().fencing_token() });
    assert!(second.await.unwrap() > first);
}

pub async fn the_lock_is_free_when_run_returns(place: &Place) {
    let client = place.client().await;
    for n in 0..20 {
        assert_eq!(client.lock(KEY).run(async { n }).await.unwrap(), n);
        assert!(place.is_free(KEY).await);
    }
}

pub async fn a_run_is_stopped_with_its_lease(place: &Place) {
    let client = place.client().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    let run = client.lock(KEY).expire(ms(200)).max_renew(0).run(async move {
        let _local = OnDrop(flag);
        std::future::pending::<()>().await;
    });
    match tokio::time::timeout(secs(15), run).await.expect("it is stopped") {
        Err(LockError::Lost { reason: LostReason::RenewalLimit, renewals: 0, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(dropped.load(Ordering::SeqCst));
    place.becomes_free(KEY).await;
}

pub async fn a_dropped_run_frees_the_lock(place: &Place) {
    let client = place.client().await;
    let (started, mut begun) = tokio::sync::oneshot::channel();
    {
        let run = client.lock(KEY).run(async move {
            let _ = started.send(());
            std::future::pending::<()>().await;
        });
        tokio::select! {
            _ = run => panic!("it is pending"),
            seen = &mut begun => seen.unwrap(),
        }
    }
    assert_eq!(client.shutdown(secs(10)).await, 0);
    assert!(place.is_free(KEY).await && client.held().is_empty());
}

pub async fn a_finished_future_keeps_its_output_though_the_lease_was_lost(place: &Place) {
    let captured = capture();
    let client = place.client().await;
    let key = format!("{KEY}-{}", place.full("").len()) + &crate::support::unique_prefix();
    let output = client.lock(&key).run(async {
        place.steal(&key, secs(60)).await;
        17
    });
    assert_eq!(output.await.unwrap(), 17);
    let warnings = captured.warnings_about(&key);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].message.contains("not protected"), "{}", warnings[0]);
    assert_eq!(place.owner(&key).await.as_deref(), Some("thief"));
}

pub async fn a_run_that_cannot_lock_does_not_start(place: &Place) {
    let (client, guard) = place.held().await;
    let body = async { panic!("the body ran without the lock") };
    let outcome: Result<(), _> = client.lock(KEY).wait(Wait::Never).run(body).await;
    assert_eq!(holder(outcome), guard.owner());
}
