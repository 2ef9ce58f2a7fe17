//! Keys and options that cannot work, and those at the edge of what can.

use std::time::Duration;

use redlock::{InvalidKeyReason, LockError, Redlock, Wait};
use tokio::task::JoinSet;

use super::place::{KEY, Place};
use crate::clients::holder;
use crate::support::{ms, secs};

pub async fn bad_keys_are_typed_errors(place: &Place) {
    let client = place.client().await;
    let cases = [
        (String::new(), InvalidKeyReason::Empty),
        ("a\nb".into(), InvalidKeyReason::ControlCharacter('\n')),
        ("a\0".into(), InvalidKeyReason::ControlCharacter('\0')),
        ("x".repeat(1025), InvalidKeyReason::TooLong(1025)),
        ("a:fence".into(), InvalidKeyReason::ReservedSuffix(":fence")),
        ("a}b".into(), InvalidKeyReason::UnbalancedBrace),
    ];
    for (key, expected) in cases {
        for outcome in [
            client.lock(&key).acquire().await.map(drop),
            client.lock(&key).try_acquire().await.map(drop),
            client.lock(&key).run(async { panic!("{expected:?}: the body ran") }).await,
        ] {
            match outcome {
                Err(LockError::InvalidKey { reason, .. }) => assert_eq!(reason, expected),
                other => panic!("{expected:?}: {other:?}"),
            }
        }
    }
    assert_eq!(place.redis_keys().await, [""; 0], "Redis was not asked");
}

pub async fn odd_but_good_keys_are_locked(place: &Place) {
    let client = place.client().await;
    for key in [" ", "*", "a b\"'\\", "{shop}-1", "a{b", "\u{1f512}", "%7B", &"x".repeat(1024)] {
        let guard = client.lock(key).acquire().await.unwrap();
        assert_eq!(guard.key(), key);
        assert_eq!(place.owner(key).await.as_deref(), Some(guard.owner()), "{key}");
        assert!(client.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
        guard.release().await.unwrap();
        assert!(place.is_free(key).await, "{key}");
    }
}

pub async fn an_expire_out_of_range_is_a_typed_error(place: &Place) {
    let client = place.client().await;
    let year = secs(365 * 24 * 3600);
    for expire in [Duration::ZERO, ms(9), year + ms(1), Duration::MAX] {
        let by_request = client.lock(KEY).expire(expire).acquire().await.map(drop);
        let by_builder = place.builder().expire(expire).build().await.map(drop);
        for error in [by_request.unwrap_err(), by_builder.unwrap_err()] {
            let is_config = matches!(&error, LockError::Config { .. });
            assert!(is_config && error.to_string().contains("`expire`"), "{error}");
        }
    }
    assert_eq!(place.redis_keys().await, [""; 0], "Redis was not asked");
    let guard = client.lock(KEY).expire(year).acquire().await.unwrap();
    assert!(guard.remaining() > secs(300 * 24 * 3600));
}

pub async fn extreme_waits_work(place: &Place) {
    let client = place.client().await;
    for wait in [Duration::MAX, Duration::from_nanos(1), Duration::ZERO] {
        let guard = client.lock(KEY).wait(wait).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    let (_, guard) = place.held().await;
    for wait in [Duration::from_nanos(1), Duration::ZERO] {
        assert_eq!(holder(client.lock(KEY).wait(wait).acquire().await), guard.owner());
    }
}

pub async fn too_many_waiters_are_refused(place: &Place) {
    let (_, guard) = place.held().await;
    let client = place.builder().max_waiters(2).build().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..5 {
        waiters.spawn(client.lock(KEY).wait(Wait::Forever).acquire());
    }
    for _ in 0..3 {
        let first = tokio::time::timeout(secs(20), waiters.join_next()).await;
        match first.expect("three are refused").unwrap().unwrap() {
            Err(LockError::TooManyWaiters { key, .. }) => assert_eq!(key, KEY),
            other => panic!("{other:?}"),
        }
    }
    guard.release().await.unwrap();
    while let Some(waiter) = waiters.join_next().await {
        drop(waiter.unwrap().expect("it was let in and waited"));
    }
    drop(client.lock(KEY).acquire().await.expect("there is room again"));
}

pub async fn the_options_of_the_client_are_the_defaults(place: &Place) {
    let builder = place.builder().expire(secs(90)).wait(Wait::Never).max_renew(0);
    let client: Redlock = builder.build().await.unwrap();
    let guard = client.lock(KEY).acquire().await.unwrap();
    assert!(guard.remaining() > secs(60) && guard.remaining() < secs(90));
    match client.lock(KEY).acquire().await.unwrap_err() {
        LockError::Timeout { attempts, .. } => assert_eq!(attempts, 1, "wait: never"),
        other => panic!("{other:?}"),
    }
    guard.release().await.unwrap();
    let guard = client.lock(KEY).expire(secs(40)).acquire().await.unwrap();
    assert!(guard.remaining() < secs(40), "a request has the last word");
}
