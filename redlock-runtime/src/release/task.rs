//! One release: what it sends, and what its answer means.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::clean_up::{clean_up, leave};
use super::unprotected::FinishedBody;
use crate::backend::{Claim, Fault, Found, Release, TokensUsed};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{Leftovers, Tenure};
use crate::local_queue::{QueueHandle, ReleaseUnderWay};
use crate::pending::PendingCommand;
use crate::shield::{shielded, tell};
use crate::state::Released;
use crate::thread_exit::Unsent;

mod verdict;

/// One release, repeated until it is answered, a fault ends it (`Fault::ends_releases`), or the
/// lease would be over anyway.
pub(crate) struct ReleaseTask {
    pub(crate) engine: Arc<Engine>,
    pub(crate) claim: Claim,
    /// The hold that this release ends; `None`: nobody held the lock.
    pub(crate) former: Option<FormerHold>,
    /// How far the fencing tokens were used, if the release gives back those after that.
    pub(crate) give_back: Option<TokensUsed>,
    pub(crate) leftovers: Leftovers,
    /// From this moment on the server has dropped the lease by itself.
    pub(crate) server_end: Moment,
    /// An earlier attempt was not answered.
    pub(crate) is_unknown: bool,
    pub(crate) reply: Option<oneshot::Sender<Result<Released, Fault>>>,
    pub(crate) pending: PendingCommand,
    pub(crate) unsent: Option<Unsent>,
    /// Counts it in the local queue of the key.
    pub(crate) under_way: ReleaseUnderWay,
    /// Set if a body has finished, and this task reports what the release finds.
    pub(crate) finished: Option<FinishedBody>,
}

/// What a release has to know of the hold that it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormerHold {
    /// The template of its key.
    pub(crate) template: &'static str,
    /// The end of `min_hold`: until then the lock stays taken.
    pub(crate) retain_until: Option<Moment>,
    /// From this moment on the server may have ended the lease by itself, so that what the release
    /// finds proves no loss. `None`: the lease was over before its holder let go of it.
    pub(crate) may_end_at: Option<Moment>,
}

impl ReleaseTask {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        tenure: &Tenure,
        server_end: Moment,
        queue: QueueHandle,
    ) -> Self {
        // Where the server signals a release to waiters, they need not wait for its end here.
        let wakes_waiters = engine.fifo_queue().is_none();
        Self {
            engine: Arc::clone(engine),
            claim: tenure.claim.clone(),
            former: None,
            give_back: tenure.tokens_to_give_back(),
            leftovers: tenure.leftovers(),
            server_end,
            is_unknown: false,
            reply: None,
            pending: engine.pending.begin(),
            unsent: None,
            under_way: queue.begin_release(wakes_waiters),
            finished: None,
        }
    }

    /// What one attempt sends.
    pub(crate) fn request(&self) -> Release<'_> {
        let may_be_queued = self.leftovers.may_be_queued;
        let left = |until: Moment| until.since(self.engine.clock().now());
        Release {
            claim: &self.claim,
            // A queued owner may have lost its counter, so its tokens are not given back.
            give_back: self.give_back.filter(|_| !may_be_queued),
            may_be_queued,
            was_queued: self.leftovers.was_queued,
            ahead: None,
            is_contended: self.under_way.is_contended(),
            retain: self.retain_until().map(left).filter(|left| !left.is_zero()),
            only_at: None,
        }
    }

    fn retain_until(&self) -> Option<Moment> {
        self.former?.retain_until
    }

    /// The label of the report on a release that fails; empty: nobody held the lock.
    pub(super) fn template(&self) -> &'static str {
        self.former.map_or("", |former| former.template)
    }

    /// The release was answered.
    pub(crate) fn finish(self, found: Found) -> Released {
        let released = self.verdict(found);
        tell!(debug, key = self.claim.key.name(), ?released, "lock released");
        // `retain` leaves an entry of the owner in the queue of the server.
        let must_leave_queue = self.retain_until().is_some() && self.leftovers.may_be_queued;
        if self.leftovers.was_cut {
            clean_up(&self.engine, self.claim.clone(), must_leave_queue);
        } else if must_leave_queue {
            leave(&self.engine, self.claim.clone(), None);
        }
        if let Some(finished) = &self.finished {
            finished.check(released);
        }
        drop(self.under_way);
        if let Some(reply) = self.reply {
            shielded(|| reply.send(Ok(released)));
        }
        drop(self.pending);
        released
    }
}
