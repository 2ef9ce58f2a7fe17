//! The values from which a hold is made when a lock is granted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::further_keys::FurtherKeys;
use super::holding_client::HoldingClient;
use super::terms::Terms;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::fencing::FencingToken;

/// The values from which a new hold is made.
pub(crate) struct NewHold {
    pub(crate) client: Arc<HoldingClient>,
    pub(crate) terms: Terms,
    pub(crate) claim: Claim,
    /// `None`: the hold has one key.
    pub(crate) further: Option<Box<FurtherKeys>>,
    pub(crate) fencing_token: FencingToken,
    pub(crate) confirmed: ConfirmedLease,
    /// When the hold begins.
    pub(crate) begun: Moment,
    /// The caller is being polled. Otherwise the hold is an offer, which is taken back after a
    /// while.
    pub(crate) is_taken: bool,
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
