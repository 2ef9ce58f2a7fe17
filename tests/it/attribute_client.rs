//! `client`: which client takes the lock, and the global one where none is named.

use redlock::{Lease, LockError, Redlock, redis_lock};
use tokio::sync::OnceCell;

use crate::clients::{client, global, key_here, raw};
use crate::support::process::{Args, Process, block_on, emit};
use crate::support::{Server, secs};

struct Stock {
    locks: Redlock,
}

impl Stock {
    #[redis_lock(key = "k", client = &self.locks)]
    async fn by_field(&self) -> Result<String, LockError> {
        Ok(redis_key_here().await)
    }

    #[redis_lock(key = "k", client = self.locks())]
    async fn by_method(&mut self) -> Result<String, LockError> {
        Ok(redis_key_here().await)
    }

    #[redis_lock(key = "k", client = &self.locks)]
    async fn by_value(self) -> Result<String, LockError> {
        drop(self);
        Ok(redis_key_here().await)
    }

    fn locks(&self) -> &Redlock {
        &self.locks
    }
}

#[redis_lock(key = "k")]
async fn by_global() -> Result<String, LockError> {
    Ok(redis_key_here().await)
}

static BESIDE: OnceCell<Redlock> = OnceCell::const_new();

#[redis_lock(key = "k", client = BESIDE.get().expect("set before"))]
async fn by_static() -> Result<String, LockError> {
    Ok(redis_key_here().await)
}

#[redis_lock(key = "k", client = if is_first { one } else { two })]
async fn chosen(one: &Redlock, two: &Redlock, is_first: bool) -> Result<String, LockError> {
    Ok(redis_key_here().await)
}

async fn redis_key_here() -> String {
    assert_eq!(key_here().await, "k");
    Lease::current().unwrap().redis_key().to_owned()
}

/// The full key of `k` for this client.
async fn full(redlock: &Redlock) -> String {
    let guard = redlock.lock("k").acquire().await.unwrap();
    let key = guard.lease().redis_key().to_owned();
    guard.release().await.unwrap();
    key
}

#[tokio::test]
async fn the_named_client_takes_the_lock() {
    let (one, two) = (client().await, client().await);
    let (full_one, full_two) = (full(&one).await, full(&two).await);
    assert_ne!(full_one, full_two);
    let mut stock = Stock { locks: one.clone() };
    assert_eq!(stock.by_field().await.unwrap(), full_one);
    assert_eq!(stock.by_method().await.unwrap(), full_one);
    assert_eq!(stock.by_value().await.unwrap(), full_one);
    assert_eq!(chosen(&one, &two, true).await.unwrap(), full_one);
    assert_eq!(chosen(&one, &two, false).await.unwrap(), full_two);
    BESIDE.set(two).unwrap();
    assert_eq!(by_static().await.unwrap(), full_two);
    let redlock = global().await;
    assert_eq!(by_global().await.unwrap(), full(&redlock).await);
    assert_eq!(raw().await.get(&full_one).await, None);
}

#[tokio::test]
async fn there_is_one_global_client() {
    let redlock = global().await;
    assert_eq!(redlock::init("redis://127.0.0.1:1").await.unwrap_err(), already());
    assert_eq!(redlock::init(Redlock::builder().memory()).await.unwrap_err(), already());
    assert_eq!(redlock.install().unwrap_err(), already());
    let guard = redlock::global().unwrap().lock("one").acquire().await.unwrap();
    assert!(redlock.lock("one").try_acquire().await.unwrap().is_none());
    drop(guard);
}

fn already() -> LockError {
    LockError::AlreadyInitialized
}

/// In a process without a client; then with one, from the environment's own kind of URL.
#[tokio::test]
async fn a_call_before_init_is_a_typed_error() {
    let url = Server::shared().await.url();
    let mut child = Process::spawn("call-before-init", &[&url]);
    let before = child.event("before").await;
    assert!(before.contains("redlock is not initialized"), "{before}");
    assert!(before.contains("redlock::init("), "it says what to do: {before}");
    assert_eq!(child.event("lazy").await, before, "asked when polled, not when called");
    assert_eq!(child.event("after").await, "k");
    assert!(child.wait(secs(15)).await.success());
}

/// The role of the child.
pub fn call_before_init(args: &Args) {
    block_on(async {
        emit(&format!("before {}", short().await.unwrap_err()));
        let unpolled = short();
        drop(unpolled);
        let error = short().await.unwrap_err();
        emit(&format!("lazy {error:?}"));
        let early = short();
        let builder = Redlock::builder().url(args.get(0)).prefix(crate::support::unique_prefix());
        redlock::init(builder).await.unwrap();
        emit(&format!("after {}", early.await.unwrap()));
    });
}

#[redis_lock(key = "k")]
async fn short() -> Result<String, LockError> {
    Ok(Lease::current().unwrap().key().to_owned())
}
