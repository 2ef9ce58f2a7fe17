//! Clients of the library under test, and what a locked body can see of its own lock.

use redlock::{Lease, LockError, Redlock, RedlockBuilder};
use tokio::sync::OnceCell;

use crate::support::{Raw, Server, unique_prefix};

/// A builder for the shared server, with keys of its own.
pub async fn builder() -> RedlockBuilder {
    Redlock::builder().url(Server::shared().await.url()).prefix(unique_prefix())
}

/// A client on the shared server, with keys of its own.
pub async fn client() -> Redlock {
    builder().await.build().await.expect("the server is up")
}

/// The global client, made at the first call, on the shared server.
///
/// Tests that need another one, or none, run in a process of their own.
pub async fn global() -> Redlock {
    static GLOBAL: OnceCell<Redlock> = OnceCell::const_new();
    let make = || async { redlock::init(builder().await).await.expect("nobody else makes it") };
    GLOBAL.get_or_init(make).await.clone()
}

/// Commands on the shared server.
pub async fn raw() -> Raw {
    Server::shared().await.raw()
}

/// For bodies: the key that the task holds, once it has been seen in Redis.
pub async fn key_here() -> String {
    let lease = Lease::current().expect("called inside of a locked body");
    let owner = raw().await.get(lease.redis_key()).await;
    assert_eq!(owner.as_deref(), Some(lease.owner()), "{} in Redis", lease.redis_key());
    lease.key().to_owned()
}

/// What became of a lock that must not have been granted: the holder that was named.
#[track_caller]
pub fn holder<T: std::fmt::Debug>(outcome: Result<T, LockError>) -> String {
    match outcome {
        Err(LockError::Timeout { holder: Some(holder), .. }) => holder,
        other => panic!("expected a timeout with a holder, got {other:?}"),
    }
}
