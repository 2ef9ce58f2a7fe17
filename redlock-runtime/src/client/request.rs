//! One lock, before it is taken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::Order;
use crate::body::reentrancy;
use crate::engine::Engine;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::options::{Policy, Wait};
use crate::{acquire, telemetry};

/// A lock that may be acquired, from [`lock`](crate::Redlock::lock). What is not set here comes
/// from the client.
///
/// ```
/// use std::time::Duration;
/// use redlock::Wait;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let request = redlock
///     .lock("nightly-report")
///     .expire(Duration::from_secs(60))
///     .wait(Wait::Never)
///     .max_renew(30);
/// let rows = request.run(async { 17 }).await?;
/// # assert_eq!(rows, 17);
/// # Ok(()) }
/// ```
#[must_use = "nothing is locked until the request is acquired or run"]
#[derive(Clone)]
pub struct LockRequest {
    engine: Arc<Engine>,
    policy: Policy,
    key: Result<LockKey, LockError>,
    /// The further keys of `lock_all`, in the order of keys.
    further: Vec<LockKey>,
    expire: Option<Duration>,
    wait: Option<Wait>,
    max_renew: Option<u32>,
    label: &'static str,
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, further, expire, wait, max_renew, label, .. } = self;
        let mut shown = f.debug_struct("LockRequest");
        shown.field("key", key);
        if !further.is_empty() {
            shown.field("further", further);
        }
        shown
            .field("expire", expire)
            .field("wait", wait)
            .field("max_renew", max_renew)
            .field("label", label)
            .finish_non_exhaustive()
    }
}

impl LockRequest {
    pub(super) fn new(
        engine: &Arc<Engine>,
        policy: Policy,
        key: Result<LockKey, LockError>,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            policy,
            key,
            further: Vec::new(),
            expire: None,
            wait: None,
            max_renew: None,
            label: telemetry::PROGRAMMATIC,
        }
    }

    pub(super) fn of_several(
        engine: &Arc<Engine>,
        policy: Policy,
        keys: Result<(LockKey, Vec<LockKey>), LockError>,
    ) -> Self {
        match keys {
            Ok((first, further)) => Self { further, ..Self::new(engine, policy, Ok(first)) },
            Err(error) => Self::new(engine, policy, Err(error)),
        }
    }

    /// The lease: how long the lock outlives a holder that died. 10 ms to 365 days, cut to whole
    /// milliseconds; other values are a [`LockError::Config`] of [`acquire`](Self::acquire).
    /// Default: the client's, which is 30 s if it does not say otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let request = redlock.lock("stock-42").expire(Duration::from_secs(60));
    /// let guard = request.acquire().await?;
    /// assert!(guard.remaining() > Duration::from_secs(30));
    /// # Ok(()) }
    /// ```
    pub fn expire(mut self, expire: Duration) -> Self {
        self.expire = Some(expire);
        self
    }

    /// How long to queue for the lock, connecting included: a `Duration`, of which zero is one
    /// attempt and the longest is not limited, [`Wait::Never`] or [`Wait::Forever`]. Default: the
    /// client's, which is 5 s if it does not say otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let held = redlock.lock("stock-42").acquire().await?;
    /// let request = redlock.lock("stock-42").wait(redlock::Wait::Never);
    /// assert!(request.acquire().await.unwrap_err().is_busy());
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = Some(wait.into());
        self
    }

    /// How many times the lease is renewed before it is lost on purpose: 0, never renewed, to
    /// `u32::MAX`. Default: the client's, which is no limit if it does not say otherwise.
    ///
    /// The longest hold is `max_renew * 2/3 * expire + 0.94 * expire`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").max_renew(2).acquire().await?;
    /// assert_eq!(guard.lost().await, redlock::LostReason::RenewalLimit); // after about 68 s
    /// assert_eq!(guard.renewals(), 2);
    /// # Ok(()) }
    /// ```
    pub fn max_renew(mut self, max_renew: u32) -> Self {
        self.max_renew = Some(max_renew);
        self
    }

    /// What metrics call this lock, in the place of the attribute's template: `import`, not the key
    /// of one import. The default is `(programmatic)`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("import-2026-11-22").label("import").acquire().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// Takes the lock, waiting for it if need be. From here on it is renewed in the background.
    ///
    /// In a task that holds the lock already, inside of a locked body, the outer hold is
    /// re-entered, with the same fencing token: the guard is there as soon as no other call inside
    /// of that hold is at it, and its drop releases nothing. Several keys
    /// ([`lock_all`](crate::Redlock::lock_all)) are re-entered where one outer hold has them all.
    ///
    /// # Errors
    /// [`LockError::Timeout`] when somebody else held the lock for the whole `wait`,
    /// [`LockError::Unavailable`] when Redis could not be asked, [`LockError::TooManyWaiters`],
    /// [`LockError::InvalidKey`], [`LockError::Config`], [`LockError::ShuttingDown`] once
    /// [`shutdown`](crate::Redlock::shutdown) was called; [`LockError::TurnTaken`] when this task
    /// holds the lock, and another call inside of that hold was not done within `wait`;
    /// [`LockError::AlreadyHeld`] when this task holds some of several keys, but not all.
    ///
    /// # Cancel safety
    /// Safe: dropping the future gives up. A lock that was granted meanwhile is released, and a
    /// command without an answer is cleaned up behind.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// println!("work that needs stock 42, with token {}", guard.fencing_token());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let policy = self.policy()?;
        let key = self.key?;
        let engine = &self.engine;
        engine.check_process()?;
        let names = std::iter::once(&key).chain(&self.further).map(LockKey::name);
        if let Some(held) = reentrancy::find_all(engine.id, names)? {
            let reentry = match held.enter_now() {
                Some(reentry) => reentry,
                None => held.enter(engine, policy.wait()).await?,
            };
            return Ok(LockGuard::reentered(reentry));
        }
        let order = Order { template: self.label, key, policy };
        let granting = if self.further.is_empty() {
            acquire::start(engine, order)
        } else {
            acquire::start_all(engine, order, self.further)
        };
        granting.await.map(LockGuard::new)
    }

    /// Takes the lock if it is free, with one attempt; `None`: somebody else holds it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without [`LockError::Timeout`] and [`LockError::TurnTaken`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let held = redlock.lock("nightly").acquire().await?;
    /// assert!(redlock.lock("nightly").try_acquire().await?.is_none());
    /// held.release().await?;
    /// assert!(redlock.lock("nightly").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        match self.wait(Wait::Never).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Timeout { .. } | LockError::TurnTaken { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the lock, runs `future` under it, and releases it: what `#[redis_lock]` does to a
    /// function. `future` is dropped, not polled once more, when the lease is lost or used up.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when `future` was stopped.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`, and releases the lock in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let left = redlock.lock("stock-42").run(async { 10 - 1 }).await?;
    /// assert_eq!(left, 9);
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(self, future: F) -> Result<F::Output, LockError> {
        let guard = self.acquire().await?;
        let output = guard.protect(future).await?;
        guard.finish().await;
        Ok(output)
    }

    fn policy(&self) -> Result<Policy, LockError> {
        self.policy.with(self.expire, self.wait, self.max_renew)
    }
}
