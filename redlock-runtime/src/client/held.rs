//! What an operator sees of a held lock.

use std::time::Duration;

use crate::fencing::FencingToken;
use crate::hold::Hold;
use crate::state::LeaseState;

/// A snapshot of one held lock, from [`Redlock::held`](super::redlock::Redlock::held).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().client_name("web-3").build().await?;
/// let guard = redlock.lock("stock-42").acquire().await?;
/// let held = &redlock.held()[0];
/// assert_eq!(held.redis_key(), "lock:stock-42");
/// assert!(held.owner().starts_with("web-3:"));
/// assert_eq!(held.fencing_token(), guard.fencing_token());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HeldLock {
    keys: Vec<String>,
    redis_key: String,
    kind: &'static str,
    owner: String,
    fencing_token: FencingToken,
    state: LeaseState,
    held_for: Duration,
    remaining: Duration,
    renewals: u32,
}

impl HeldLock {
    pub(super) fn of(hold: &Hold) -> Self {
        Self {
            keys: hold.key_names().to_vec(),
            redis_key: hold.claim.key.redis_key().to_owned(),
            kind: hold.claim.kind.label(),
            owner: hold.claim.owner.as_str().to_owned(),
            fencing_token: hold.fencing_token,
            state: hold.state(),
            held_for: hold.held_for(),
            remaining: hold.remaining(),
            renewals: hold.renewals(),
        }
    }

    /// The key, without the client's prefix. Of several keys, the first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert_eq!(held.key(), "stock-42");
    /// # Ok(()) }
    /// ```
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }

    /// All keys of the lease, without the client's prefix: one, or those of
    /// [`lock_all`](super::redlock::Redlock::lock_all).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock_all(["acct-1", "acct-2"]).acquire().await?;
    /// assert_eq!(redlock.held()[0].keys(), ["acct-1", "acct-2"]);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The key as it stands in Redis.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert_eq!(held.redis_key(), "lock:stock-42");
    /// # Ok(()) }
    /// ```
    pub fn redis_key(&self) -> &str {
        &self.redis_key
    }

    /// `write` (the plain lock), `read` or `permit`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("config").read().acquire().await?;
    /// assert_eq!(redlock.held()[0].kind(), "read");
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The owner value of the holder. It stands in the key, or, of a reader or a permit, among the
    /// holders.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert_eq!(held.owner(), guard.owner());
    /// # Ok(()) }
    /// ```
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The fencing token of this hold.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert_eq!(held.fencing_token(), guard.fencing_token());
    /// # Ok(()) }
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.fencing_token
    }

    /// Held or uncertain; a lost lease is not listed for long.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert_eq!(held.state(), redlock::LeaseState::Held);
    /// # Ok(()) }
    /// ```
    pub fn state(&self) -> LeaseState {
        self.state
    }

    /// The time since the acquisition, at the time of the snapshot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let is_slow = |held: &redlock::HeldLock| held.held_for() > Duration::from_secs(3600);
    /// assert!(!redlock.held().iter().any(is_slow));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn held_for(&self) -> Duration {
        self.held_for
    }

    /// How long the body may go on if the lease is not renewed, at the time of the snapshot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert!(held.remaining() < Duration::from_secs(30)); // of the default `expire`
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// How many renewals were confirmed, at the time of the snapshot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let held = &redlock.held()[0];
    /// assert_eq!(held.renewals(), 0);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn renewals(&self) -> u32 {
        self.renewals
    }
}
