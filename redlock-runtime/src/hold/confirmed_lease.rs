//! What is known about a lease on the server.

use std::time::Duration;

use crate::clock::Moment;

/// What is known about a lease on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfirmedLease {
    /// Read before the granted command left.
    pub(crate) sent: Moment,
    /// How long the server keeps the lock from then on, at least.
    pub(crate) lease: Duration,
}
