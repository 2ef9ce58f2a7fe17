//! What a backend is asked for: a lease, or its end.

use std::time::Duration;

use super::tokens::TokensUsed;
use crate::key::LockKey;
use crate::owner::Owner;

/// One lease: which lock, for whom, for how long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) key: LockKey,
    pub(crate) owner: Owner,
    pub(crate) expire: Duration,
}

/// What an owner lets go of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release<'a> {
    pub(crate) claim: &'a Claim,
    /// Fencing tokens that were reserved and not used. They are given back, unless somebody has
    /// drawn tokens since.
    pub(crate) unused: Option<TokensUsed>,
    /// The owner may wait in the queue of the server: it leaves that, too.
    pub(crate) may_be_queued: bool,
}

impl<'a> Release<'a> {
    /// The lock alone.
    pub(crate) fn of(claim: &'a Claim) -> Self {
        Self { claim, unused: None, may_be_queued: false }
    }

    /// The place in the queue, and the lock if it was handed over meanwhile.
    pub(crate) fn leaving(claim: &'a Claim) -> Self {
        Self { may_be_queued: true, ..Self::of(claim) }
    }
}
