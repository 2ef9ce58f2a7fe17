//! `Redlock::scope`: functions on the global client, each test with a client of its own.

use std::future::poll_fn;
use std::task::Poll;

use redlock::{Lease, LockError, MemoryStore, Redlock, redis_lock};

use crate::support::process::{Args, Process, block_on, emit};
use crate::support::secs;

#[redis_lock(key = "k")]
async fn by_global() -> Result<String, LockError> {
    tokio::task::yield_now().await;
    Ok(Lease::current().unwrap().redis_key().to_owned())
}

#[redis_lock(key = "k", client = redlock)]
async fn by_argument(redlock: &Redlock) -> Result<String, LockError> {
    by_global().await
}

async fn client(prefix: &str) -> Redlock {
    Redlock::builder().memory().prefix(prefix).build().await.unwrap()
}

#[tokio::test]
async fn a_function_takes_its_lock_from_the_client_of_its_scope() {
    let (one, two) = (client("one:").await, client("two:").await);
    let inner = two.clone();
    let seen = one.scope(async move { (by_global().await, inner.scope(by_global()).await) });
    assert_eq!(seen.await, (Ok("one:k".to_owned()), Ok("two:k".to_owned())));
    // A client that is named counts for its function, not for those that it calls.
    assert_eq!(one.scope(by_argument(&two)).await, Ok("one:k".to_owned()));
    let both = tokio::join!(one.scope(by_global()), two.scope(by_global()));
    assert_eq!(both, (Ok("one:k".to_owned()), Ok("two:k".to_owned())));
}

#[tokio::test]
async fn the_first_poll_of_a_call_decides_on_its_client() {
    let (one, two) = (client("one:").await, client("two:").await);
    let (made,) = one.scope(async { (by_global(),) }).await;
    assert_eq!(two.scope(made).await, Ok("two:k".to_owned()), "made in one, polled in two");
    let begun = one.scope(async {
        let mut call = Box::pin(by_global());
        let is_pending = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        (call, is_pending)
    });
    let (begun, is_pending) = begun.await;
    assert!(is_pending);
    assert_eq!(two.scope(begun).await, Ok("one:k".to_owned()), "begun in one");
}

/// A call of the same key on another client is another lock: it does not re-enter.
#[tokio::test]
async fn clients_of_one_store_exclude_each_other_across_scopes() {
    let store = MemoryStore::new();
    let on = || Redlock::builder().memory_store(store.clone()).build();
    let (one, two) = (on().await.unwrap(), on().await.unwrap());
    let nested = one.lock("k").run(two.scope(async {
        let redlock = redlock::global().unwrap();
        redlock.lock("k").try_acquire().await.unwrap().is_none()
    }));
    assert_eq!(nested.await, Ok(true));
}

/// In a process whose global client is not there yet.
#[tokio::test]
async fn init_makes_the_client_of_the_process_also_inside_of_a_scope() {
    let mut child = Process::spawn("init-in-a-scope", &[]);
    for expected in ["not initialized", "scope:k", "scope:k", "global:k", "already"] {
        let seen = child.event("saw").await;
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
    assert!(child.wait(secs(15)).await.success());
}

/// The role of the child.
pub fn init_in_a_scope(_: &Args) {
    block_on(async {
        let saw = |seen: Result<String, LockError>| match seen {
            Ok(key) => emit(&format!("saw {key}")),
            Err(error) => emit(&format!("saw {error}")),
        };
        let builder = || Redlock::builder().memory().prefix("global:");
        let scope = client("scope:").await;
        saw(by_global().await);
        scope
            .scope(async {
                saw(by_global().await);
                redlock::init(builder()).await.unwrap();
                saw(by_global().await);
            })
            .await;
        saw(by_global().await);
        saw(scope.scope(redlock::init(builder())).await.map(|_| String::new()));
    });
}
