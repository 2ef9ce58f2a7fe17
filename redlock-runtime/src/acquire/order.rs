//! What a caller orders: which lock, and by which policy.

use std::sync::Arc;

use crate::backend::Claim;
use crate::body::reentrancy::lookup;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::{Hold, Terms};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::{Policy, Wait};
use crate::owner::Owner;
use crate::telemetry::{CountedCall, LockLabels};

/// Which lock to acquire, and by which policy.
#[derive(Debug)]
pub(crate) struct Order {
    /// The template of the key, or `LockRequest::label`: the label of metrics.
    pub(crate) template: &'static str,
    pub(crate) key: LockKey,
    pub(crate) kind: Kind,
    pub(crate) policy: Policy,
    /// A call that finds the lock busy is skipped, which is no failure.
    pub(crate) skips_busy: bool,
    /// How many shutdowns of the client had begun before the call.
    pub(crate) shutdowns_before: u64,
    /// Is the lock that of a leader?
    pub(crate) is_leader: bool,
}

/// The outcome of an acquisition.
pub(super) type Acquisition = Result<Ownership, LockError>;

impl Order {
    /// Counts the call.
    pub(super) fn counted(&self) -> CountedCall {
        let labels = LockLabels { template: self.template, kind: self.kind };
        let busy = match self.policy.wait() {
            _ if self.skips_busy => "skipped",
            Wait::Never => "refused",
            Wait::AtMost(_) | Wait::Forever => "timeout",
        };
        CountedCall::begin(labels, busy)
    }

    /// The holds inside of which the current task makes this call: their bodies may take what they
    /// need to come to their end. None for a leader: a term does not end by itself, so a shutdown
    /// ends it.
    pub(super) fn outer_holds(&self, engine: &Engine) -> Vec<Arc<Hold>> {
        if self.is_leader { Vec::new() } else { lookup::holds_of(engine.id) }
    }

    pub(super) fn terms(&self, started: Moment, outer: &[Arc<Hold>]) -> Terms {
        let Self { template, policy, shutdowns_before, is_leader, .. } = self;
        Terms {
            template,
            expire: policy.expire(),
            min_hold: policy.min_hold(),
            max_renew: policy.max_renew(),
            started,
            shutdowns_before: outer.is_empty().then_some(*shutdowns_before),
            is_leader: *is_leader,
        }
    }

    /// When the wait of a call is over that began at `started`.
    pub(super) fn wait_ends(&self, started: Moment) -> Moment {
        match self.policy.wait() {
            Wait::Never => started,
            Wait::AtMost(limit) => started.plus(limit),
            Wait::Forever => Moment::NEVER,
        }
    }

    pub(super) fn claim(&self, engine: &Engine, terms: &Terms) -> Claim {
        Claim {
            key: self.key.clone(),
            owner: Owner::fresh(&engine.client),
            expire: terms.lease(),
            kind: self.kind,
        }
    }
}
