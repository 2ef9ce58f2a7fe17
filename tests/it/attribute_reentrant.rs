//! Re-entry: the same task walks into a lock that it holds already, without asking Redis.

use std::sync::atomic::{AtomicU32, Ordering};

use async_recursion::async_recursion;
use redlock::{AlreadyHeldReason, FencingToken, Lease, LockError, Redlock, redis_lock};

use crate::clients::{builder, client, holder, raw};
use crate::support::{Proxy, Server, ms, secs, unique_prefix};

fn fencing_token() -> FencingToken {
    Lease::current().unwrap().fencing_token()
}

#[redis_lock(key = "account-<id>", wait = "0s", client = redlock)]
async fn inner(redlock: &Redlock, id: u64) -> Result<FencingToken, LockError> {
    Ok(fencing_token())
}

#[redis_lock(key = "account-<id>", client = redlock)]
async fn outer(redlock: &Redlock, id: u64, proxy: &Proxy) -> Result<(), LockError> {
    proxy.forget();
    let mine = fencing_token();
    for _ in 0..100 {
        assert_eq!(inner(redlock, id).await?, mine);
    }
    assert_eq!(proxy.command_log(), [""; 0], "no traffic at all");
    assert_eq!(redlock.held().len(), 1);
    let lease = Lease::current().unwrap();
    assert_eq!(raw().await.get(lease.redis_key()).await.as_deref(), Some(lease.owner()));
    assert_ne!(inner(redlock, id + 1).await?, mine, "another key is another lock");
    Ok(())
}

#[tokio::test]
async fn a_nested_call_shares_the_hold_without_asking_redis() {
    let proxy = Proxy::start(Server::shared().await);
    let redlock = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).lazy();
    let redlock = redlock.build().await.unwrap();
    outer(&redlock, 1, &proxy).await.unwrap();
    assert!(redlock.held().is_empty());
    assert!(redlock.lock("account-1").try_acquire().await.unwrap().is_some(), "released");
}

#[async_recursion]
#[redis_lock(key = "tree", wait = "0s", client = redlock)]
async fn descend(redlock: &Redlock, depth: u32) -> Result<u32, LockError> {
    if depth == 0 {
        assert_eq!(redlock.held().len(), 1);
        return Ok(0);
    }
    tokio::task::yield_now().await;
    Ok(1 + descend(redlock, depth - 1).await?)
}

#[tokio::test]
async fn a_deep_recursion_is_one_hold() {
    let redlock = client().await;
    assert_eq!(descend(&redlock, 200).await.unwrap(), 200);
    assert!(redlock.lock("tree").try_acquire().await.unwrap().is_some(), "released once, at last");
}

#[redis_lock(key = "ping", client = redlock)]
async fn ping(redlock: &Redlock, depth: u32) -> Result<u32, LockError> {
    if depth == 0 { Ok(0) } else { Box::pin(pong(redlock, depth - 1)).await }
}

#[redis_lock(key = "pong", client = redlock)]
async fn pong(redlock: &Redlock, depth: u32) -> Result<u32, LockError> {
    assert!(redlock.held().len() == 2);
    if depth == 0 { Ok(0) } else { Box::pin(ping(redlock, depth - 1)).await }
}

#[tokio::test]
async fn two_locks_in_turn_are_re_entered_too() {
    let redlock = client().await;
    assert_eq!(ping(&redlock, 11).await.unwrap(), 0);
    assert!(redlock.held().is_empty());
}

#[redis_lock(key = "k", client = redlock)]
async fn joins(redlock: &Redlock) -> Result<(), LockError> {
    let mine = fencing_token();
    let call = || redlock.lock("k").run(async { fencing_token() });
    let (one, two, three) = tokio::join!(call(), call(), call());
    assert_eq!([one?, two?, three?], [mine; 3]);
    Ok(())
}

#[tokio::test]
async fn joined_futures_are_of_the_same_task() {
    joins(&client().await).await.unwrap();
}

#[redis_lock(key = "stock", wait = "60s", client = redlock)]
async fn deduct(redlock: &Redlock, stock: &AtomicU32) -> Result<(), LockError> {
    let left = stock.load(Ordering::SeqCst);
    tokio::task::yield_now().await;
    stock.store(left - 1, Ordering::SeqCst);
    Ok(())
}

#[redis_lock(key = "stock", client = redlock)]
async fn deducts_twice(redlock: &Redlock, stock: &AtomicU32) -> Result<(), LockError> {
    let (one, two) = tokio::join!(deduct(redlock, stock), deduct(redlock, stock));
    one.and(two)
}

#[tokio::test]
async fn joined_calls_of_one_function_take_turns() {
    let stock = AtomicU32::new(10);
    deducts_twice(&client().await, &stock).await.unwrap();
    assert_eq!(stock.load(Ordering::SeqCst), 8);
}

#[redis_lock(key = "account-<id>", client = redlock)]
async fn spawns(redlock: &Redlock, id: u64) -> Result<(), LockError> {
    let lease = Lease::current().unwrap();
    let inside = redlock.clone();
    let spawned = tokio::spawn(async move { inner(&inside, id).await }).await.unwrap();
    assert_eq!(holder(spawned), lease.owner(), "another task waits as everybody does");
    let inside = redlock.clone();
    let scoped = lease.scope(async move { inner(&inside, id).await });
    assert_eq!(tokio::spawn(scoped).await.unwrap()?, lease.fencing_token());
    Ok(())
}

#[tokio::test]
async fn another_task_re_enters_only_in_the_scope_of_the_lease() {
    spawns(&client().await, 1).await.unwrap();
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[redis_lock(key = "strict", reentrant = false, client = redlock)]
async fn strict(redlock: &Redlock, again: bool) -> Result<(), LockError> {
    RUNS.fetch_add(1, Ordering::SeqCst);
    let lease = Lease::current().unwrap();
    if again {
        let waiting = Box::pin(strict(redlock, false));
        let error = tokio::time::timeout(secs(20), waiting).await.expect("no deadlock");
        match error.unwrap_err() {
            LockError::AlreadyHeld { key, reason, .. } => {
                assert_eq!((&*key, reason), ("strict", AlreadyHeldReason::NotReentrant));
            }
            other => panic!("{other:?}"),
        }
        lease.check().expect("the outer call goes on");
        assert_eq!(raw().await.get(lease.redis_key()).await.as_deref(), Some(lease.owner()));
    }
    Ok(())
}

#[tokio::test]
async fn not_reentrant_is_a_typed_error_at_once() {
    let redlock = client().await;
    strict(&redlock, true).await.unwrap();
    assert_eq!(RUNS.load(Ordering::SeqCst), 1, "the inner body did not run");
    strict(&redlock, false).await.unwrap();
    strict(&redlock, false).await.expect("one after the other is no re-entry");
}

/// The lock of another client on the same keys is somebody else's.
#[tokio::test]
async fn another_client_is_not_re_entered() {
    let prefix = unique_prefix();
    let one = builder().await.prefix(&prefix).build().await.unwrap();
    let two = builder().await.prefix(&prefix).build().await.unwrap();
    let body = async {
        let owner = Lease::current().unwrap().owner().to_owned();
        let error = inner(&two, 1).await.unwrap_err();
        assert!(error.to_string().contains(&format!("held by {owner}")), "{error}");
        assert_eq!(holder(two.lock("account-1").wait(ms(30)).acquire().await), owner);
    };
    one.lock("account-1").run(body).await.unwrap();
}

/// A guard does not make its holder's calls re-enter: it may be held by nobody's body.
#[tokio::test]
async fn a_guard_beside_the_call_is_no_re_entry() {
    let redlock = client().await;
    let guard = redlock.lock("account-1").acquire().await.unwrap();
    assert_eq!(holder(inner(&redlock, 1).await), guard.owner());
    let told = inner(&redlock, 1).await.unwrap_err().to_string();
    assert!(told.contains("held by this client itself"), "{told}");
    assert!(guard.protect(inner(&redlock, 1)).await.unwrap().is_ok(), "inside of it, it is");
}
