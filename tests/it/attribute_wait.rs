//! `wait`: how long a call queues for its lock.

use std::sync::Mutex;
use std::time::Duration;

use redlock::{LockError, Redlock, Wait, redis_lock};

use crate::clients::{builder, client, holder, raw};
use crate::support::{eventually, ms, secs};

#[redis_lock(key = "k", wait = "0s", client = redlock)]
async fn once(redlock: &Redlock) -> Result<u32, LockError> {
    Ok(1)
}

#[redis_lock(key = "k", wait = "150ms", client = redlock)]
async fn a_while(redlock: &Redlock) -> Result<u32, LockError> {
    Ok(2)
}

#[redis_lock(key = "k", wait = "forever", client = redlock)]
async fn forever(redlock: &Redlock) -> Result<u32, LockError> {
    Ok(3)
}

#[redis_lock(key = "k", wait = limit, client = redlock)]
async fn expression(redlock: &Redlock, limit: impl Into<Wait>) -> Result<u32, LockError> {
    Ok(4)
}

#[redis_lock(key = "k", client = redlock)]
async fn default(redlock: &Redlock) -> Result<u32, LockError> {
    Ok(5)
}

#[track_caller]
fn timeout<T: std::fmt::Debug>(outcome: Result<T, LockError>) -> (Duration, u32) {
    match outcome {
        Err(LockError::Timeout { key, waited, attempts, holder: Some(_), .. }) => {
            assert_eq!(key, "k");
            (waited, attempts)
        }
        other => panic!("expected a timeout, got {other:?}"),
    }
}

#[tokio::test]
async fn a_free_lock_needs_no_wait() {
    let redlock = client().await;
    let sum = once(&redlock).await.unwrap()
        + a_while(&redlock).await.unwrap()
        + forever(&redlock).await.unwrap()
        + expression(&redlock, Wait::Never).await.unwrap()
        + default(&redlock).await.unwrap();
    assert_eq!(sum, 15);
}

#[tokio::test]
async fn zero_asks_once() {
    let redlock = client().await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(timeout(once(&redlock).await).1, 1);
    assert_eq!(timeout(expression(&redlock, Duration::ZERO).await).1, 1);
    assert_eq!(timeout(expression(&redlock, Wait::Never).await).1, 1);
    assert_eq!(holder(once(&redlock).await), guard.owner());
}

#[tokio::test]
async fn a_limit_is_waited_out() {
    let redlock = client().await;
    let _guard = redlock.lock("k").acquire().await.unwrap();
    let (waited, _) = timeout(a_while(&redlock).await);
    assert!(waited >= ms(150) && waited < secs(5), "{waited:?}");
    let (waited, _) = timeout(expression(&redlock, ms(60)).await);
    assert!(waited >= ms(60) && waited < secs(5), "{waited:?}");
    let (waited, _) = timeout(expression(&redlock, Wait::AtMost(ms(40))).await);
    assert!(waited >= ms(40) && waited < secs(5), "{waited:?}");
}

#[tokio::test]
async fn the_default_is_the_clients() {
    let redlock = builder().await.wait(ms(70)).build().await.unwrap();
    let _guard = redlock.lock("k").acquire().await.unwrap();
    let (waited, _) = timeout(default(&redlock).await);
    assert!(waited >= ms(70) && waited < secs(4), "70 ms, not 5 s: {waited:?}");
}

#[tokio::test]
async fn a_queued_call_runs_when_the_lock_comes_free() {
    let redlock = client().await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    let inside = redlock.clone();
    let call = tokio::spawn(async move { forever(&inside).await });
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let output = tokio::time::timeout(secs(20), call).await.expect("it is let in");
    assert_eq!(output.unwrap().unwrap(), 3);
}

/// A dead process of another library: its lease ends, and only then the call runs.
#[tokio::test]
async fn forever_outlasts_a_dead_holder() {
    let redlock = builder().await.wait(Wait::Never).build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let key = guard.lease().redis_key().to_owned();
    guard.release().await.unwrap();
    assert!(raw().await.set_foreign_lock(&key, "dead", ms(500)).await);
    let output = tokio::time::timeout(secs(20), forever(&redlock)).await.expect("it is let in");
    assert_eq!(output.unwrap(), 3);
    eventually(secs(20), || async { raw().await.get(&key).await.is_none() }).await;
}

/// The guard of one option is dropped before the next one is read.
#[tokio::test]
async fn every_option_may_take_the_same_mutex() {
    #[redis_lock(
        key = "k",
        expire = limits.try_lock().unwrap().0,
        wait = limits.try_lock().unwrap().1,
        max_renew = limits.try_lock().unwrap().2,
        min_hold = limits.try_lock().unwrap().1,
        client = redlock
    )]
    async fn limited(
        redlock: &Redlock,
        limits: &Mutex<(Duration, Duration, u32)>,
    ) -> Result<u32, LockError> {
        Ok(6)
    }
    let limits = Mutex::new((secs(10), ms(1), 3));
    assert_eq!(limited(&client().await, &limits).await.unwrap(), 6);
}
