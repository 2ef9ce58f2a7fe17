//! The global client: the one that functions with `#[redis_lock]` use.

use super::process;
use super::process::PerProcess;
use crate::blocking::block_on;
use crate::client::{IntoRedlock, Redlock, RedlockBuilder, check_may_block, in_scope};
use crate::error::LockError;

static GLOBAL: PerProcess<Redlock> = PerProcess::new();

/// Makes the global client. Call it once, at startup, before the first locked function; and once
/// more in a child of a fork, which cannot use the client of its parent.
///
/// Takes a URL (`&str`, `String` or `&String`), the URLs of N masters (`Vec<String>`), a
/// `deadpool_redis::Pool`, a [`builder`](Redlock::builder) or a client.
///
/// # Errors
/// [`LockError::AlreadyInitialized`] at the second call, [`LockError::Config`] for options that
/// cannot work, [`LockError::Unavailable`] when the server cannot be reached, refuses the login, or
/// is unfit for locks (too old, a replica, a sentinel, a part of a cluster),
/// [`LockError::BackgroundThread`] when that thread cannot be started.
///
/// # Cancel safety
/// Dropping the future leaves no client behind.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// use redlock::{LockError, Redlock};
///
/// redlock::init(Redlock::builder().memory()).await?; // or "redis://127.0.0.1:6379", or a pool
///
/// let again = redlock::init("redis://127.0.0.1:6379").await;
/// assert_eq!(again.unwrap_err(), LockError::AlreadyInitialized);
/// # Ok(()) }
/// ```
pub async fn init(client: impl IntoRedlock) -> Result<Redlock, LockError> {
    // A fork that was not detected is known from here on.
    process::ask();
    // The one of the process: a scope around this call changes nothing about it.
    if GLOBAL.last().is_some_and(|redlock| redlock.engine().check_process().is_ok()) {
        return Err(LockError::AlreadyInitialized);
    }
    let redlock = client.into_redlock().await?;
    redlock.install()?;
    Ok(redlock)
}

/// [`init`] for a program without asynchronous code: blocks the thread until the servers have
/// answered. It needs no runtime. Later calls are
/// [`acquire_blocking`](crate::LockRequest::acquire_blocking) and
/// [`release_blocking`](crate::LockGuard::release_blocking).
///
/// # Errors
/// As [`init`], and [`LockError::InTask`] in a task of tokio, whose thread must not be blocked.
///
/// ```
/// use redlock::{LockError, Redlock};
///
/// fn main() -> Result<(), LockError> {
///     redlock::init_blocking(Redlock::builder().memory())?; // or "redis://127.0.0.1:6379"
///     let guard = redlock::global()?.lock("stock-42").acquire_blocking()?;
///     guard.check()?; // before a step that must not happen without the lock
///     guard.release_blocking()?;
///     Ok(())
/// }
/// ```
pub fn init_blocking(client: impl IntoRedlock) -> Result<Redlock, LockError> {
    check_may_block("")?;
    block_on(init(client))
}

/// [`init`] from the environment.
///
/// | variable | meaning |
/// | --- | --- |
/// | `REDLOCK_URLS` | the servers, with commas (a comma in a password is fine) |
/// | `REDIS_URL` | the server, where `REDLOCK_URLS` is not set |
/// | `REDLOCK_SENTINEL` | the servers are sentinels: the name of the master (feature `sentinel`) |
/// | `REDLOCK_CLUSTER` | `1`: the servers belong to a Redis Cluster (feature `cluster`) |
/// | `REDLOCK_PREFIX` | put before every key, instead of `lock:`; no white space at its ends |
/// | `REDLOCK_TLS_CA` | PEM file of a private CA (feature `tls`) |
/// | `REDLOCK_TLS_CERT`, `REDLOCK_TLS_KEY` | PEM files of a client certificate (feature `tls`) |
///
/// Of `REDLOCK_CLUSTER`, `0`, `n`, `no`, `f`, `false` and `off` mean no, anything else means yes.
/// A blank variable counts as one that is not set: a client without a prefix is made by
/// [`prefix("")`](crate::RedlockBuilder::prefix) only, and so is one whose prefix has white space
/// at its ends. The program `redlock` reads the same ones. [`RedlockBuilder::from_env`] reads them
/// for a client with more options, or one that is not the global one.
///
/// # Errors
/// As [`init`]; [`LockError::Config`] when no server is named, a file cannot be read, or a variable
/// needs a feature that is not compiled in.
///
/// # Cancel safety
/// Dropping the future leaves no client behind.
///
/// ```no_run
/// # async fn demo() -> Result<(), redlock::LockError> {
/// redlock::init_from_env().await?;
/// # Ok(()) }
/// ```
pub async fn init_from_env() -> Result<Redlock, LockError> {
    init(RedlockBuilder::from_env()?).await
}

/// The global client; inside of a [`Redlock::scope`] the client of that scope.
///
/// # Errors
/// [`LockError::NotInitialized`] before [`init`] and outside of any scope,
/// [`LockError::ForkedProcess`] in a child of a fork before it has called [`init`] itself, and
/// inside of a scope whose client is that of the parent.
///
/// ```
/// assert_eq!(redlock::global().unwrap_err(), redlock::LockError::NotInitialized);
/// ```
pub fn global() -> Result<Redlock, LockError> {
    let redlock = of_call()?;
    redlock.engine().check_process()?;
    Ok(redlock)
}

/// The global client, for a call that checks by itself whether the client belongs to this process.
pub(crate) fn of_call() -> Result<Redlock, LockError> {
    in_scope().or_else(|| GLOBAL.last().cloned()).ok_or(LockError::NotInitialized)
}

impl Redlock {
    /// Makes this client the global one, which functions with `#[redis_lock]` use.
    ///
    /// # Errors
    /// [`LockError::AlreadyInitialized`] when there is one, [`LockError::ForkedProcess`] when this
    /// client belongs to the process from which this one was forked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// redlock.install()?;
    /// assert!(redlock::global().is_ok());
    /// # Ok(()) }
    /// ```
    pub fn install(&self) -> Result<(), LockError> {
        self.engine().check_process()?;
        GLOBAL.set(process::id(), self.clone())
    }
}
