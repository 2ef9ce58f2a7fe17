//! What callers may do with the types of the library: checked when this compiles.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;

use redlock::testing::{Command, FaultyStore, PlannedFault};
use redlock::{
    ClientScope, FencingToken, Health, HeldLock, InvalidFencingToken, InvalidKeyReason, Lease,
    LeaseState, LockError, LockGuard, LockRequest, LostReason, MemoryStore, NodeError,
    NodeErrorKind, NodeHealth, Redlock, RedlockBuilder, Released, Scoped, Tls, Wait, redis_lock,
};

use crate::clients::client;

const fn shared<T: Send + Sync + Unpin + Debug + 'static>() {}
const fn cloned<T: Clone>() {}
const fn value<T: Copy + Eq + Hash>() {}
const fn error<T: Error + Send + Sync + Clone + Eq + 'static>() {}
fn send<T: Send>(value: T) -> T {
    value
}
fn sync<T: Sync>(value: T) -> T {
    value
}

const _: () = {
    shared::<Redlock>();
    shared::<RedlockBuilder>();
    shared::<LockRequest>();
    shared::<LockGuard>();
    shared::<Lease>();
    shared::<HeldLock>();
    shared::<MemoryStore>();
    shared::<FencingToken>();
    shared::<LeaseState>();
    shared::<LostReason>();
    shared::<Released>();
    shared::<Wait>();
    shared::<LockError>();
    shared::<NodeError>();
    shared::<NodeErrorKind>();
    shared::<InvalidKeyReason>();
    shared::<Scoped<std::future::Ready<()>>>();
    shared::<ClientScope<std::future::Ready<()>>>();
    shared::<Health>();
    shared::<NodeHealth>();
    shared::<InvalidFencingToken>();
    shared::<Tls>();
    shared::<FaultyStore>();
    shared::<PlannedFault<'static>>();
    shared::<Command>();

    cloned::<Redlock>();
    cloned::<RedlockBuilder>();
    cloned::<LockRequest>();
    cloned::<Lease>();
    cloned::<HeldLock>();
    cloned::<MemoryStore>();
    cloned::<Health>();
    cloned::<NodeHealth>();
    cloned::<Tls>();
    cloned::<FaultyStore>();

    value::<Command>();
    value::<FencingToken>();
    value::<LeaseState>();
    value::<LostReason>();
    value::<Released>();
    value::<NodeErrorKind>();

    error::<LockError>();
    error::<NodeError>();
    error::<InvalidFencingToken>();
};

/// Futures of the API can be spawned, whatever runs inside of them, if that can.
#[tokio::test]
async fn the_futures_are_send() {
    let redlock = client().await;
    drop(send(Redlock::builder().build()));
    drop(send(Redlock::connect("redis://127.0.0.1:1")));
    drop(send(redlock::init("redis://127.0.0.1:1")));
    drop(send(redlock::init(&String::from("redis://127.0.0.1:1"))));
    drop(send(redlock::init_from_env()));
    drop(RedlockBuilder::from_env().map(|builder| send(builder.build())));
    drop(send(redlock.lock("k").acquire()));
    drop(send(redlock.lock("k").try_acquire()));
    drop(send(redlock.lock("k").run(async {})));
    drop(send(redlock.lock("k").lead(|_: Lease| async { 1 })));
    drop(send(redlock.health()));
    drop(send(redlock.scope(async {})));
    drop(send(redlock.drain(std::time::Duration::ZERO)));
    drop(send(redlock.shutdown(std::time::Duration::ZERO)));
    let guard = redlock.lock("k").acquire().await.unwrap();
    drop(send(guard.protect(async {})));
    drop(send(guard.lost()));
    drop(send(guard.lease().scope(async {})));
    drop(send(guard.downgrade()));
    let guard = redlock.lock("k").acquire().await.unwrap();
    drop(send(guard.release()));
}

#[redis_lock(key = "bounds-<id>")]
async fn plain(id: u64, text: &str, list: &mut Vec<u64>) -> Result<String, LockError> {
    let local = vec![id];
    tokio::task::yield_now().await;
    list.extend(local);
    Ok(text.to_owned())
}

#[redis_lock(key = "bounds-<id>")]
async fn boxed(id: u64) -> Result<u64, Box<dyn Error>> {
    tokio::task::yield_now().await;
    Ok("1".parse::<u64>()? + id)
}

/// The future of a locked call is `Send` and `Sync` where the plain one is; an output that is
/// neither does not change that.
#[tokio::test]
async fn the_future_of_a_locked_call_is_send_and_sync() {
    let mut list = Vec::new();
    drop(sync(send(plain(1, "a", &mut list))));
    drop(sync(send(boxed(1))));
}

#[tokio::test]
async fn fencing_tokens_order_and_convert() {
    let redlock = client().await;
    let first = redlock.lock("k").acquire().await.unwrap();
    let one: FencingToken = first.fencing_token();
    first.release().await.unwrap();
    let two = redlock.lock("k").acquire().await.unwrap().fencing_token();
    assert!(one < two && one.max(two) == two);
    let (number, signed): (u64, i64) = (two.into(), two.into());
    assert_eq!(number.to_string(), signed.to_string());
    let shown: &dyn Display = &two;
    assert_eq!(shown.to_string(), number.to_string());
}
