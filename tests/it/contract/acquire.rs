//! Who gets a lock, and who does not.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};

use redlock::{LeaseState, LockError, LockRequest, Redlock, Wait};
use tokio::task::JoinSet;

use super::place::{KEY, Place};
use crate::clients::holder;
use crate::support::{ms, secs, unique_prefix};

pub async fn a_free_lock_is_taken(place: &Place) {
    let (client, guard) = place.held().await;
    assert_eq!(guard.key(), KEY);
    assert_eq!(guard.lease().redis_key(), place.full(KEY));
    let (name, random) = guard.owner().split_once(':').unwrap();
    assert_eq!((name, random.len()), ("contract", 32));
    assert_eq!(place.owner(KEY).await.as_deref(), Some(guard.owner()));
    assert_eq!((guard.state(), guard.renewals()), (LeaseState::Held, 0));
    guard.check().unwrap();
    assert!(guard.remaining() > secs(20) && guard.remaining() < secs(30), "{guard:?}");
    drop(client);
    guard.check().expect("a guard outlives the handle it came from");
}

pub async fn a_held_lock_is_refused_and_names_its_holder(place: &Place) {
    let (_, guard) = place.held().await;
    let other = place.client().await;
    assert!(other.lock(KEY).try_acquire().await.unwrap().is_none());
    let refused = other.lock(KEY).wait(Wait::Never).acquire().await;
    let error = refused.as_ref().unwrap_err();
    assert_eq!(error.key(), Some(KEY));
    assert!(error.to_string().contains(guard.owner()), "{error}");
    assert_eq!(holder(refused), guard.owner());
    guard.check().expect("the holder is not disturbed");
    assert_eq!(place.owner(KEY).await.as_deref(), Some(guard.owner()));
}

pub async fn different_keys_do_not_exclude_each_other(place: &Place) {
    let (client, guard) = place.held().await;
    let other = client.lock("stock-43").try_acquire().await.unwrap().expect("another lock");
    assert_ne!(guard.owner(), other.owner());
}

pub async fn different_prefixes_do_not_exclude_each_other(place: &Place) {
    let (_, guard) = place.held().await;
    let elsewhere = place.builder().prefix(unique_prefix()).build().await.unwrap();
    let other = elsewhere.lock(KEY).try_acquire().await.unwrap().expect("another prefix");
    assert_ne!(guard.lease().redis_key(), other.lease().redis_key());
    assert_eq!(guard.key(), other.key());
}

/// Two clients with four tasks each read, wait and write; one lost update would show.
pub async fn two_clients_exclude_each_other(place: &Place) {
    let clients = [place.client().await, place.client().await];
    let (counter, inside) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let client = clients[n % 2].clone();
        let (counter, inside) = (counter.clone(), inside.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = client.lock(KEY).wait(Wait::Forever).acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
                let seen = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                counter.store(seen + 1, Ordering::SeqCst);
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 80, "two holders at once");
    assert!(place.is_free(KEY).await);
}

pub async fn clones_share_one_client(place: &Place) {
    let (client, guard) = place.held().await;
    let clone = client.clone();
    assert_eq!(clone.held()[0].owner(), guard.owner());
    assert!(clone.lock(KEY).try_acquire().await.unwrap().is_none(), "a clone is no way around");
    drop(client);
    guard.release().await.unwrap();
    assert!(clone.held().is_empty());
}

pub async fn a_record_of_somebody_else_is_respected(place: &Place) {
    place.steal(KEY, secs(60)).await;
    let client = place.client().await;
    assert_eq!(holder(client.lock(KEY).wait(ms(50)).acquire().await), "thief");
    place.remove(KEY).await;
    drop(client.lock(KEY).try_acquire().await.unwrap().expect("it is free now"));
}

pub async fn an_acquire_dropped_at_any_poll_leaves_nothing(place: &Place) {
    dropped_at_any_poll_leaves_nothing(place, &[KEY], |client| client.lock(KEY)).await;
}

/// However far the acquisition of these keys has come: they are free afterwards, and nobody is
/// listed as their holder.
pub async fn dropped_at_any_poll_leaves_nothing(
    place: &Place,
    keys: &[&str],
    request: impl Fn(&Redlock) -> LockRequest,
) {
    let client = place.client().await;
    for polls in 0..12 {
        {
            let mut acquire = pin!(request(&client).acquire());
            for _ in 0..polls {
                let mut cx = Context::from_waker(Waker::noop());
                if acquire.as_mut().poll(&mut cx).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(client.shutdown(secs(10)).await, 0);
        let next = client.lock_all(keys).acquire().await;
        drop(next.unwrap_or_else(|error| panic!("after {polls} polls: {error}")));
        assert_eq!(client.shutdown(secs(10)).await, 0);
        assert!(client.held().is_empty(), "after {polls} polls");
        for key in keys {
            assert!(place.is_free(key).await, "{key} after {polls} polls");
        }
    }
}

pub async fn a_dropped_waiter_hands_its_turn_on(place: &Place) {
    let (client, guard) = place.held().await;
    let waiter = |key| tokio::spawn(client.lock(key).wait(Wait::Forever).acquire());
    let (first, second) = (waiter(KEY), waiter(KEY));
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(secs(10), second).await.expect("not stuck");
    let guard = guard.unwrap().unwrap();
    let error: Result<_, LockError> = client.lock(KEY).wait(Wait::Never).acquire().await;
    assert_eq!(holder(error), guard.owner());
}
