//! `on_error`: what a call returns when its lock fails.

use std::cell::Cell;

use redlock::{LockError, LostReason, Redlock, redis_lock};

use crate::clients::client;
use crate::support::secs;

#[derive(Debug)]
enum AppError {
    Lock(LockError),
    Busy,
    Body,
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        AppError::Lock(error)
    }
}

fn busy<T>(error: LockError) -> Result<T, AppError> {
    match error {
        LockError::Timeout { .. } => Err(AppError::Busy),
        other => Err(other.into()),
    }
}

#[redis_lock(key = "k", wait = "0s", client = redlock)]
async fn from(redlock: &Redlock, ok: bool) -> Result<u32, AppError> {
    if ok { Ok(1) } else { Err(AppError::Body) }
}

#[redis_lock(key = "k", wait = "0s", client = redlock)]
async fn boxed(redlock: &Redlock) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    Ok("1".parse::<u32>()?)
}

#[redis_lock(key = "k", wait = "0s", client = redlock, on_error = busy)]
async fn path(redlock: &Redlock) -> Result<u32, AppError> {
    Ok(1)
}

#[redis_lock(key = "k", wait = "0s", client = redlock, on_error = |error| error.to_string())]
async fn closure(redlock: &Redlock) -> String {
    "done".to_owned()
}

#[redis_lock(key = "k", wait = "0s", client = redlock, on_error = |_| None)]
async fn option(redlock: &Redlock) -> Option<u32> {
    Some(1)
}

#[redis_lock(key = "k", wait = "0s", client = redlock, on_error = |_: LockError| {
    skipped.set(skipped.get() + 1);
})]
async fn counts(redlock: &Redlock, skipped: &Cell<u32>) {
    assert!(redlock.held().len() == 1);
}

#[redis_lock(key = "k", wait = "0s", client = redlock, on_error = panic)]
async fn panics(redlock: &Redlock) -> u32 {
    1
}

#[redis_lock(
    key = "k", expire = "200ms", max_renew = 0, client = redlock, on_error = Some
)]
async fn hangs(redlock: &Redlock) -> Option<LockError> {
    std::future::pending().await
}

#[tokio::test]
async fn a_free_lock_never_asks_the_handler() {
    let redlock = client().await;
    assert_eq!(from(&redlock, true).await.unwrap(), 1);
    assert!(matches!(from(&redlock, false).await, Err(AppError::Body)), "the body's own error");
    assert_eq!(boxed(&redlock).await.unwrap(), 1);
    assert_eq!(path(&redlock).await.unwrap(), 1);
    assert_eq!(closure(&redlock).await, "done");
    assert_eq!(option(&redlock).await, Some(1));
    let skipped = Cell::new(0);
    counts(&redlock, &skipped).await;
    assert_eq!(skipped.get(), 0);
    assert_eq!(panics(&redlock).await, 1);
}

#[tokio::test]
async fn a_busy_lock_becomes_what_the_function_says() {
    let redlock = client().await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    match from(&redlock, true).await.unwrap_err() {
        AppError::Lock(LockError::Timeout { key, holder, .. }) => {
            assert_eq!((&*key, holder.as_deref()), ("k", Some(guard.owner())));
        }
        other => panic!("{other:?}"),
    }
    let error = boxed(&redlock).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(LockError::Timeout { .. })), "{error}");
    assert!(matches!(path(&redlock).await, Err(AppError::Busy)));
    assert!(closure(&redlock).await.contains(guard.owner()));
    assert_eq!(option(&redlock).await, None);
    let skipped = Cell::new(0);
    counts(&redlock, &skipped).await;
    counts(&redlock, &skipped).await;
    assert_eq!(skipped.get(), 2);
    guard.check().expect("the holder is not disturbed");
}

#[tokio::test]
async fn panic_panics_with_the_whole_message() {
    let redlock = client().await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    let inside = redlock.clone();
    let panicked = tokio::spawn(async move { panics(&inside).await }).await.unwrap_err();
    let payload = panicked.into_panic();
    let message = payload.downcast_ref::<String>().unwrap();
    assert!(message.contains("lock `k` was not free"), "{message}");
    guard.release().await.unwrap();
    assert_eq!(panics(&redlock).await, 1, "no poison");
}

#[tokio::test]
async fn a_lost_lease_goes_to_the_handler_too() {
    let redlock = client().await;
    let error = tokio::time::timeout(secs(20), hangs(&redlock)).await.expect("it is stopped");
    let is_used_up = |reason| reason == LostReason::RenewalLimit;
    assert!(matches!(error, Some(LockError::Lost { reason, .. }) if is_used_up(reason)));
}
