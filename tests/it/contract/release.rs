//! The end of a hold, by every way that leads there.

use redlock::{LockError, Released};

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

pub async fn a_shutdown_keeps_held_locks(place: &Place) {
    let (client, guard) = place.held().await;
    assert_eq!(client.shutdown(ms(50)).await, 0);
    guard.check().unwrap();
    assert_eq!(place.owner(KEY).await.as_deref(), Some(guard.owner()));
    let again: Result<_, LockError> = client.lock("other").acquire().await;
    drop(again.expect("a client goes on after a shutdown"));
}
