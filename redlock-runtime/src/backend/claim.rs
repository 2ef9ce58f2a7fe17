//! The requests of a backend: a lease, or its release.

use std::sync::Arc;
use std::time::Duration;

use super::tokens::TokensUsed;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

/// One lease: which lock, of which kind, for which owner, for how long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) key: LockKey,
    pub(crate) owner: Owner,
    pub(crate) expire: Duration,
    pub(crate) kind: Kind,
}

/// What an owner releases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release<'a> {
    pub(crate) claim: &'a Claim,
    /// How far the fencing tokens were used, if the release gives back those after that.
    /// The server leaves them as they are where another owner has drawn tokens since.
    pub(crate) give_back: Option<TokensUsed>,
    /// The owner may wait in the queue of the server: it leaves the queue as well.
    pub(crate) may_be_queued: bool,
    /// The owner stood in the queue of the server before it had the lock.
    pub(crate) was_queued: bool,
    /// How many were ahead of it in the queue when it was seen last, where that is known.
    pub(crate) ahead: Option<u32>,
    /// Another process competes for the lock, as far as this one knows.
    pub(crate) is_contended: bool,
    /// For how long the lock stays taken, though its owner has let go of it.
    pub(crate) retain: Option<Duration>,
    /// The only process of the server that may get the release; `None`: whichever answers.
    pub(crate) only_at: Option<&'a Arc<str>>,
}

impl<'a> Release<'a> {
    /// Releases the lock only.
    pub(crate) fn of(claim: &'a Claim) -> Self {
        Self {
            claim,
            give_back: None,
            may_be_queued: false,
            was_queued: false,
            ahead: None,
            is_contended: false,
            retain: None,
            only_at: None,
        }
    }

    /// Is there nothing to do but to let go of the lock of one holder?
    pub(crate) fn is_plain(&self) -> bool {
        let Self { claim, give_back, may_be_queued, retain, only_at, .. } = self;
        let is_whole = give_back.is_none() && retain.is_none() && only_at.is_none();
        claim.kind == Kind::Exclusive && is_whole && !may_be_queued
    }

    /// Can it be part of a batch? A batch leaves out the release of a lock that somebody waits for,
    /// so that it would take another round trip, and nobody may be there to send it.
    pub(crate) fn may_join(&self) -> bool {
        self.is_plain() && !self.is_contended
    }

    /// Leaves the queue, and releases the lock if it was handed over meanwhile.
    pub(crate) fn leaving(claim: &'a Claim) -> Self {
        Self { may_be_queued: true, ..Self::of(claim) }
    }
}
