//! The values from which a hold is made when a lock is granted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::further_keys::FurtherKeys;
use crate::backend::{Claim, LockBackend};
use crate::clock::{Clock, Moment};
use crate::fencing::FencingToken;
use crate::report::Reports;

/// The values from which a new hold is made.
pub(crate) struct NewHold {
    pub(crate) client: u64,
    /// The process that holds it.
    pub(crate) process: u32,
    pub(crate) template: &'static str,
    pub(crate) claim: Claim,
    /// `None`: the hold has one key.
    pub(crate) further: Option<Box<FurtherKeys>>,
    /// What renewals and the stop go by. The lease of `claim` is longer if `min_hold` is.
    pub(crate) expire: Duration,
    /// For how long the lock stays taken at least.
    pub(crate) min_hold: Duration,
    pub(crate) fencing_token: FencingToken,
    pub(crate) max_renew: Option<u32>,
    pub(crate) backend: Arc<dyn LockBackend>,
    pub(crate) reply_timeout: Duration,
    pub(crate) clock: Clock,
    pub(crate) confirmed: ConfirmedLease,
    /// When the hold begins.
    pub(crate) granted: Moment,
    pub(crate) waited: Duration,
    /// The caller is being polled. Otherwise the hold is an offer, which is taken back after a
    /// while.
    pub(crate) is_taken: bool,
    pub(crate) reports: Arc<Reports>,
    /// Tells waiters of this process that the lease was lost.
    pub(crate) news: Arc<Notify>,
}

/// What is known about a lease on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfirmedLease {
    /// Read before the granted command left.
    pub(crate) sent: Moment,
    /// How long the server keeps the lock from then on, at least.
    pub(crate) lease: Duration,
}
