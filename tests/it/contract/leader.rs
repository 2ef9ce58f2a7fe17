//! `LockRequest::lead`, and locks for threads without asynchronous code.

use redlock::{LockGuard, Released};
use tokio::sync::{mpsc, oneshot};

use super::place::{KEY, Place};
use crate::support::{secs, within};

/// Long before its lease would have ended.
pub async fn a_leader_that_is_done_is_followed(place: &Place) {
    let (one, two) = (place.client().await, place.client().await);
    let (elected, mut elections) = mpsc::channel(1);
    let (end, ended) = oneshot::channel::<()>();
    let mut ended = Some(ended);
    let first = one.lock(KEY).expire(secs(120)).lead(move |lease| {
        let (elected, ended) = (elected.clone(), ended.take().expect("it is elected once"));
        async move {
            elected.send(()).await.unwrap();
            let _ = ended.await;
            lease.fencing_token()
        }
    });
    let first = tokio::spawn(first);
    within(secs(30), elections.recv()).await.unwrap();
    let second = two.lock(KEY).expire(secs(120));
    let second = tokio::spawn(second.lead(|lease| async move { lease.fencing_token() }));
    assert!(!second.is_finished());
    end.send(()).unwrap();
    let first = within(secs(30), first).await.unwrap().unwrap();
    assert!(within(secs(30), second).await.unwrap().unwrap() > first);
    place.becomes_free(KEY).await;
}

pub async fn a_leader_that_lost_its_lock_leads_again(place: &Place) {
    let client = place.client().await;
    let (elected, mut elections) = mpsc::channel(2);
    let leads = client.lock(KEY).expire(secs(1)).lead(move |lease| {
        let elected = elected.clone();
        async move {
            elected.send(lease.fencing_token()).await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    let leads = tokio::spawn(leads);
    let first = within(secs(30), elections.recv()).await.unwrap();
    place.remove(KEY).await;
    let again = within(secs(30), elections.recv()).await.unwrap();
    assert!(again > first);
    leads.abort();
    place.becomes_free(KEY).await;
}

pub async fn a_thread_blocks_for_its_lock(place: &Place) {
    let (client, guard) = place.held().await;
    let request = client.lock(KEY).wait(secs(60));
    let thread = std::thread::spawn(move || {
        request.acquire_blocking().and_then(LockGuard::release_blocking)
    });
    let busy = client.lock(KEY);
    let busy = std::thread::spawn(move || busy.try_acquire_blocking());
    let busy = tokio::task::spawn_blocking(|| busy.join().unwrap());
    assert!(within(secs(30), busy).await.unwrap().unwrap().is_none());
    guard.release().await.unwrap();
    let released = tokio::task::spawn_blocking(|| thread.join().unwrap());
    let released = within(secs(60), released).await.unwrap();
    assert_eq!(released, Ok(Released::Released));
}
