//! Several keys at once: all of them or none.

use redlock::{Lease, LockError, LockRequest, LostReason, Released, Wait};

use super::acquire::dropped_at_any_poll_leaves_nothing;
use super::place::Place;
use crate::clients::holder;
use crate::support::{ms, secs};

const KEYS: [&str; 3] = ["acct-1", "acct-2", "acct-3"];

async fn all_are_free(place: &Place) -> bool {
    for key in KEYS {
        if !place.is_free(key).await {
            return false;
        }
    }
    true
}

pub async fn several_keys_are_one_lock(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let guard = client.lock_all(["acct-3", "acct-1", "acct-2", "acct-1"]).acquire().await.unwrap();
    assert_eq!((guard.keys(), guard.key()), (&KEYS.map(str::to_owned)[..], "acct-1"));
    assert_eq!(place.owner("acct-1").await.as_deref(), Some(guard.owner()));
    assert_eq!((client.held().len(), client.held()[0].keys()), (1, guard.keys()));
    for key in KEYS {
        assert!(!place.is_free(key).await, "{key}");
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
    }
    assert!(other.lock_all(["acct-2", "other"]).try_acquire().await.unwrap().is_none());
    assert!(place.is_free("other").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(all_are_free(place).await);
    drop(other.lock_all(KEYS).acquire().await.unwrap());
    assert_eq!(other.shutdown(secs(10)).await, 0);
    assert!(all_are_free(place).await);
}

pub async fn a_busy_one_of_several_keys_is_named_and_the_others_are_let_go_of(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let held = other.lock("acct-2").acquire().await.unwrap();
    let error = client.lock_all(KEYS).wait(secs(2)).acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::Timeout { key, .. } if key == "acct-2"), "{error}");
    assert_eq!(holder(Err::<(), _>(error)), held.owner());
    assert_eq!(client.shutdown(secs(10)).await, 0);
    assert!(place.is_free("acct-1").await && place.is_free("acct-3").await);
    assert!(client.held().is_empty());
}

pub async fn several_keys_wait_for_each_of_them(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let held = other.lock("acct-3").acquire().await.unwrap();
    let waiting = tokio::spawn(client.lock_all(KEYS).wait(Wait::Forever).acquire());
    place.becomes_taken("acct-2").await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    let guard = tokio::time::timeout(secs(10), waiting).await.expect("it is free");
    let guard = guard.unwrap().unwrap();
    guard.check().unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(all_are_free(place).await);
}

pub async fn fencing_tokens_of_several_keys_grow(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let mut last = other.lock("acct-2").acquire().await.unwrap().fencing_token();
    assert_eq!(other.shutdown(secs(10)).await, 0);
    for _ in 0..3 {
        let guard = client.lock_all(KEYS).acquire().await.unwrap();
        let own = guard.fencing_token();
        assert!(own > last, "{own} {last}");
        let waiting = tokio::spawn(other.lock("acct-3").wait(secs(20)).acquire());
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
        for key in KEYS {
            let request = other.lock(key).wait(secs(20));
            if key != "acct-3" {
                let guard = request.acquire().await.unwrap();
                assert!(guard.fencing_token() > own, "{key}");
                last = last.max(guard.fencing_token());
                guard.release().await.unwrap();
            }
        }
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.fencing_token() > own, "handed over");
        last = last.max(guard.fencing_token());
        guard.release().await.unwrap();
    }
}

pub async fn the_loss_of_one_key_stops_the_body_and_frees_the_others(place: &Place) {
    let client = place.client().await;
    let body = async {
        place.steal("acct-2", secs(60)).await;
        std::future::pending::<()>().await;
    };
    let run = client.lock_all(KEYS).expire(secs(6)).run(body);
    let error = tokio::time::timeout(secs(30), run).await.expect("it is stopped").unwrap_err();
    let LockError::Lost { key, reason, .. } = &error else { panic!("{error}") };
    assert_eq!((&**key, *reason), ("acct-2", LostReason::Stolen));
    place.becomes_free("acct-1").await;
    place.becomes_free("acct-3").await;
    assert_eq!(place.owner("acct-2").await.as_deref(), Some("thief"));
    place.remove("acct-2").await;
}

/// Each key has an owner of its own, which is not that of the first.
pub async fn who_waits_for_one_of_several_keys_does_not_end_their_hold(place: &Place) {
    let client = place.client().await;
    let guard = client.lock_all(KEYS).acquire().await.unwrap();
    for key in KEYS {
        let error = client.lock(key).wait(ms(500)).acquire().await.unwrap_err();
        assert_eq!(Some(holder(Err::<(), _>(error))), place.owner(key).await, "{key}");
        guard.check().unwrap();
    }
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(all_are_free(place).await);
}

pub async fn an_acquire_of_several_keys_dropped_at_any_poll_leaves_nothing(place: &Place) {
    dropped_at_any_poll_leaves_nothing(place, &KEYS, |client| client.lock_all(KEYS)).await;
}

pub async fn several_keys_are_re_entered(place: &Place) {
    let client = place.client().await;
    let body = async {
        let outer = Lease::current().unwrap();
        let inner = client.lock_all(["acct-3", "acct-1"]).acquire().await.unwrap();
        assert_eq!(inner.fencing_token(), outer.fencing_token());
        drop(inner);
        let one = client.lock("acct-2").wait(Wait::Never).acquire().await.unwrap();
        assert_eq!(one.keys(), outer.keys());
        drop(one);
        let error = client.lock_all(["acct-3", "acct-4"]).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::AlreadyHeld { .. }), "{error}");
        assert!(place.is_free("acct-4").await);
    };
    client.lock_all(KEYS).run(body).await.unwrap();
    assert!(all_are_free(place).await);
}

pub async fn readers_of_one_of_several_keys_are_waited_for(place: &Place) {
    let (client, other) = (place.client().await, place.client().await);
    let readers = [other.lock("acct-2").read(), other.lock("acct-2").read()];
    let [first, second] = readers.map(LockRequest::acquire);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let error = client.lock_all(KEYS).wait(Wait::Never).acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::Timeout { key, .. } if key == "acct-2"), "{error}");
    assert!(holder(Err::<(), _>(error)).contains("reader"));
    let waiting = tokio::spawn(client.lock_all(KEYS).wait(Wait::Forever).acquire());
    place.becomes_taken("acct-1").await;
    first.release().await.unwrap();
    assert!(!waiting.is_finished());
    second.release().await.unwrap();
    let guard = tokio::time::timeout(secs(10), waiting).await.expect("it is free");
    let guard = guard.unwrap().unwrap();
    for key in KEYS {
        assert!(other.lock(key).read().try_acquire().await.unwrap().is_none(), "{key}");
    }
    guard.release().await.unwrap();
    drop(other.lock("acct-2").read().acquire().await.unwrap());
}
