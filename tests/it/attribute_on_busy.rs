//! `on_busy = "skip"`: somebody else has the lock, so the body does not run.

use std::sync::atomic::{AtomicU32, Ordering};

use redlock::{Lease, LockError, Redlock, redis_lock};

use crate::clients::{builder, client, raw};
use crate::support::{Server, capture, ms, secs, unique_prefix};

type Stock = Result<Option<u32>, LockError>;

#[redis_lock(key = "k", wait = "0s", on_busy = "skip", client = redlock)]
async fn result(redlock: &Redlock, runs: &AtomicU32) -> Result<(), LockError> {
    runs.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

#[redis_lock(key = "k", wait = "20ms", on_busy = "skip", client = redlock)]
async fn aliased(redlock: &Redlock, runs: &AtomicU32) -> Stock {
    Ok(Some(runs.fetch_add(1, Ordering::SeqCst)))
}

#[redis_lock(key = "k", wait = "0s", on_busy = "skip", client = redlock, on_error = panic)]
async fn unit(redlock: &Redlock, runs: &AtomicU32) {
    runs.fetch_add(1, Ordering::SeqCst);
}

#[redis_lock(key = "k", wait = "0s", on_busy = "skip", client = redlock, on_error = |error| {
    panic!("{error}")
})]
async fn option(redlock: &Redlock, runs: &AtomicU32) -> Option<u32> {
    Some(runs.fetch_add(1, Ordering::SeqCst))
}

#[redis_lock(key = "k", wait = "0s", on_busy = "skip", client = redlock)]
async fn nested(redlock: &Redlock) -> Result<Result<Option<u32>, String>, LockError> {
    Ok(Ok(Some(1)))
}

#[redis_lock(key = "k", wait = "0s", on_busy = "skip", reentrant = false, client = redlock)]
async fn not_reentrant(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_call_that_finds_the_lock_busy_is_skipped() {
    let (redlock, runs) = (client().await, AtomicU32::new(0));
    let other = redlock.lock("k").acquire().await.unwrap();
    result(&redlock, &runs).await.unwrap();
    assert_eq!(aliased(&redlock, &runs).await.unwrap(), None);
    unit(&redlock, &runs).await;
    assert_eq!(option(&redlock, &runs).await, None);
    assert_eq!(nested(&redlock).await.unwrap(), Ok(None));
    assert_eq!(runs.load(Ordering::SeqCst), 0, "no body has run");

    other.release().await.unwrap();
    result(&redlock, &runs).await.unwrap();
    assert_eq!(aliased(&redlock, &runs).await.unwrap(), Some(1));
    unit(&redlock, &runs).await;
    assert_eq!(option(&redlock, &runs).await, Some(3));
    assert_eq!(nested(&redlock).await.unwrap(), Ok(Some(1)));
}

#[tokio::test]
async fn a_skip_is_told() {
    #[redis_lock(key = "<key>", wait = "0s", on_busy = "skip", client = redlock)]
    async fn job(redlock: &Redlock, key: &str) -> Result<(), LockError> {
        Ok(())
    }
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    let other = redlock.lock(&key).acquire().await.unwrap();
    job(&redlock, &key).await.unwrap();
    let event = captured.wait_for(secs(8), &key, "call skipped").await;
    assert_eq!(event.level, tracing::Level::DEBUG);
    assert_eq!(event.field("template"), Some("<key>"));
    assert_eq!(event.field("holder"), Some(other.owner()));
    other.release().await.unwrap();
    job(&redlock, &key).await.unwrap();
    let skips = captured.about(&key).into_iter();
    assert_eq!(skips.filter(|event| event.message.contains("skipped")).count(), 1);
}

/// It would be skipped for ever, and nobody would miss it.
#[tokio::test]
async fn a_skip_behind_a_key_without_an_expiry_is_a_warning() {
    #[redis_lock(key = "<key>", wait = "0s", on_busy = "skip", client = redlock)]
    async fn job(redlock: &Redlock, key: &str) -> Result<(), LockError> {
        Ok(())
    }
    let (redlock, captured, key) = (client().await, capture(), unique_prefix());
    let guard = redlock.lock(&key).acquire().await.unwrap();
    let in_redis = guard.lease().redis_key().to_owned();
    guard.release().await.unwrap();
    raw().await.cmd(&["SET", &in_redis, "old-cron"]).await;
    job(&redlock, &key).await.unwrap();
    let event = captured.wait_for(secs(8), &key, "the lock does not end by itself").await;
    assert_eq!(event.level, tracing::Level::WARN);
    assert_eq!(event.field("template"), Some("<key>"));
    assert_eq!(event.field("holder"), Some("old-cron"));
}

/// Whether the lock is busy is not known then: a job that is skipped would never be missed.
#[tokio::test]
async fn a_server_that_cannot_be_asked_is_no_skip() {
    let server = Server::start().await;
    let builder = Redlock::builder().url(server.url()).reply_timeout(ms(200));
    let redlock = builder.build().await.unwrap();
    server.freeze();
    let runs = AtomicU32::new(0);
    let errors = [
        result(&redlock, &runs).await.unwrap_err(),
        aliased(&redlock, &runs).await.unwrap_err(),
        not_reentrant(&redlock).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_unavailable(), "{error}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_client_without_room_for_a_waiter_is_no_skip() {
    let redlock = builder().await.max_waiters(0).build().await.unwrap();
    let held = redlock.lock("k").acquire().await.unwrap();
    let runs = AtomicU32::new(0);
    let error = aliased(&redlock, &runs).await.unwrap_err();
    assert!(matches!(error, LockError::TooManyWaiters { .. }), "{error}");
    held.release().await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// The task holds the lock: nobody else has it, and it would wait for itself.
#[tokio::test]
async fn a_task_that_may_not_re_enter_is_no_skip() {
    let redlock = client().await;
    let inner = redlock.lock("k").run(not_reentrant(&redlock)).await.unwrap();
    assert!(matches!(inner, Err(LockError::AlreadyHeld { .. })), "{inner:?}");
}

/// Another call inside of the same hold has its turn, for longer than this one waits.
#[tokio::test]
async fn a_turn_of_another_call_is_a_skip() {
    let (redlock, runs) = (client().await, AtomicU32::new(0));
    let body = async {
        let sibling = redlock.lock("k").acquire().await.unwrap();
        result(&redlock, &runs).await.unwrap();
        drop(sibling);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        result(&redlock, &runs).await.unwrap();
        Lease::current().is_some()
    };
    assert!(redlock.lock("k").run(body).await.unwrap());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
