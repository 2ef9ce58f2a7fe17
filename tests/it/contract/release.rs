//! The end of a hold, by every way that leads there.

use std::time::Instant;

use redlock::{LockError, LockRequest, Redlock, Released, Wait};
use tokio::task::JoinSet;

use super::place::{KEY, Place};
use crate::support::{ms, secs};

pub async fn a_release_frees_the_lock(place: &Place) {
    for _ in 0..20 {
        let (client, guard) = place.held().await;
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert!(place.is_free(KEY).await, "free when it returns");
        assert!(client.held().is_empty());
    }
}

pub async fn a_release_of_a_lost_key_says_expired(place: &Place) {
    let (_, guard) = place.held().await;
    place.remove(KEY).await;
    assert_eq!(guard.release().await.unwrap(), Released::Expired);
}

pub async fn a_release_of_a_stolen_key_says_stolen_and_leaves_it(place: &Place) {
    let (_, guard) = place.held().await;
    place.steal(KEY, secs(60)).await;
    assert_eq!(guard.release().await.unwrap(), Released::Stolen);
    assert_eq!(place.owner(KEY).await.as_deref(), Some("thief"));
}

pub async fn a_lock_stays_taken_for_its_min_hold(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let before = Instant::now();
    let guard = client.lock(KEY).min_hold(secs(2)).acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(client.held().is_empty());
    // The same process waits, too, and another one, in the queue where there is one.
    let (here, there) = (client.lock(KEY).wait(secs(60)), other.lock(KEY).wait(secs(60)));
    let taken_after = async |request: LockRequest| {
        let guard = request.acquire().await.unwrap();
        let after = before.elapsed();
        guard.release().await.unwrap();
        after
    };
    let (here, there) = tokio::join!(taken_after(here), taken_after(there));
    assert!(here.min(there) >= secs(2), "{here:?} {there:?}");
    assert!(place.is_free(KEY).await);
}

pub async fn a_dropped_guard_frees_the_lock(place: &Place) {
    let (client, guard) = place.held().await;
    drop(guard);
    assert!(client.held().is_empty());
    place.becomes_free(KEY).await;
}

pub async fn a_dropped_guard_leaves_a_stolen_key(place: &Place) {
    let (client, guard) = place.held().await;
    place.steal(KEY, secs(60)).await;
    drop(guard);
    assert_eq!(client.shutdown(secs(10)).await, 0);
    assert_eq!(place.owner(KEY).await.as_deref(), Some("thief"));
}

pub async fn a_panic_frees_the_lock(place: &Place) {
    let (client, guard) = place.held().await;
    let task = tokio::spawn(async move {
        let _guard = guard;
        panic!("as the test wants");
    });
    assert!(task.await.unwrap_err().is_panic());
    place.becomes_free(KEY).await;
    drop(client.lock(KEY).acquire().await.expect("no poison"));
}

pub async fn a_guard_can_be_dropped_without_a_runtime(place: &Place) {
    let (client, guard) = place.held().await;
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    place.becomes_free(KEY).await;
    assert_eq!(client.shutdown(secs(10)).await, 0);
}

pub async fn shutdown_waits_for_dropped_guards(place: &Place) {
    let client = place.client().await;
    let mut guards = Vec::new();
    for n in 0..20 {
        guards.push(client.lock(format!("k{n}")).acquire().await.unwrap());
    }
    drop(guards);
    assert_eq!(client.shutdown(secs(10)).await, 0);
    for n in 0..20 {
        assert!(place.is_free(&format!("k{n}")).await, "k{n}: at once, not some time later");
    }
}

/// However far they are: with their first question on its way, or long in line.
pub async fn a_shutdown_ends_all_waiting(place: &Place) {
    let (client, guard) = place.held().await;
    place.steal("elsewhere", secs(60)).await;
    for are_settled in [false, true] {
        let mut waiters = JoinSet::new();
        for key in [KEY, "elsewhere"] {
            for wait in [Wait::Forever, secs(60).into()] {
                waiters.spawn(client.lock(key).wait(wait).acquire());
            }
        }
        tokio::task::yield_now().await;
        if are_settled {
            wait_behind_them(&client).await;
        }
        let begun = std::time::Instant::now();
        client.shutdown(secs(10)).await;
        while let Some(ended) = waiters.join_next().await {
            let error = ended.unwrap().unwrap_err();
            assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
        }
        assert!(begun.elapsed() < secs(20), "{:?}", begun.elapsed());
    }
    guard.check().unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released, "no waiter is left behind");
    place.becomes_free(KEY).await;
    place.remove("elsewhere").await;
    drop(client.lock("elsewhere").acquire().await.expect("the line is served"));
}

/// Waits in both queues for a moment, and gives up.
async fn wait_behind_them(client: &Redlock) {
    for key in [KEY, "elsewhere"] {
        let error = client.lock(key).wait(ms(100)).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Timeout { .. }), "{error}");
    }
}

pub async fn a_shutdown_keeps_held_locks(place: &Place) {
    let (client, guard) = place.held().await;
    assert_eq!(client.shutdown(ms(50)).await, 0);
    guard.check().unwrap();
    assert_eq!(place.owner(KEY).await.as_deref(), Some(guard.owner()));
    let again: Result<_, LockError> = client.lock("other").acquire().await;
    drop(again.expect("a client goes on after a shutdown"));
}
