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
    key: String,
    redis_key: String,
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
            key: hold.claim.key.name().to_owned(),
            redis_key: hold.claim.key.redis_key().to_owned(),
            owner: hold.claim.owner.as_str().to_owned(),
            fencing_token: hold.fencing_token,
            state: hold.state(),
            held_for: hold.held_for(),
            remaining: hold.remaining(),
            renewals: hold.renewals(),
        }
    }

    /// The key, without the client's prefix.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The key as it stands in Redis.
    pub fn redis_key(&self) -> &str {
        &self.redis_key
    }

    /// The value that stands in the key.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The fencing token of this hold.
    pub fn fencing_token(&self) -> FencingToken {
        self.fencing_token
    }

    /// Held or uncertain; a lost lease is not listed for long.
    pub fn state(&self) -> LeaseState {
        self.state
    }

    /// Since the acquisition.
    pub fn held_for(&self) -> Duration {
        self.held_for
    }

    /// Until the body is stopped, unless the lease is renewed before.
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// ConfirmedLease renewals so far.
    pub fn renewals(&self) -> u32 {
        self.renewals
    }
}
