//! The ability of a backend to turn an exclusive lock into a read lock without a gap.

use std::time::Duration;

use super::claim::Claim;
use super::outcome::{Found, Reply};
use crate::fencing::FencingToken;

/// The answer to a holder that becomes a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Downgraded {
    /// The reader has the lock. This fencing token is new.
    Granted(FencingToken),
    /// The lock had another owner or none; nothing was done. Never [`Found::Ours`].
    Lost(Found),
}

/// Turns an exclusive lock into a read lock.
pub(crate) trait Downgrade: Send + Sync {
    /// The lock of `held` becomes that of the reader `next`, and of readers that wait at the head
    /// of the queue. When the outcome is unknown, a release of `next` and a release of `held` were
    /// sent after it, on the same connection.
    fn downgrade<'a>(
        &'a self,
        held: &'a Claim,
        next: &'a Claim,
        within: Duration,
    ) -> Reply<'a, Downgraded>;
}
