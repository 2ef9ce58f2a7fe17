//! `Ownership`: the handle of a caller, whose drop frees its lock.

use std::fmt;
use std::sync::Arc;

use super::local_handoff::pass_on;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{Granted, Hold, Scheduler, Tenure};
use crate::local_queue::QueueHandle;
use crate::pending::PendingCommand;
use crate::release::{self, FinishedBody, FormerHold, ReleaseFuture, ReleaseTask};
use crate::shield::tell;
use crate::state::Released;

mod awaited;
mod detach;
mod offered;
mod several;

/// Owns a lock. Dropping it lets go of the lock from any thread: a caller of this process that
/// waits has it next, or a message to the background thread for each key releases it. The drop
/// needs no runtime, and never waits for a server.
pub(crate) struct Ownership {
    engine: Arc<Engine>,
    hold: Arc<Hold>,
    scheduler: Arc<Scheduler>,
    /// `None`: the lock was released or handed on already.
    held: Option<HeldKey>,
    /// The same of the further keys of the hold; empty: it has one key.
    further: Vec<HeldKey>,
    /// It counts as a lock of its caller, which a drain waits for, also after a loss.
    is_counted: bool,
    /// What was granted counts as pending until the caller has looked for a shutdown. Dropped
    /// last, so that a shutdown sees the release begin before it sees this end.
    pending: Option<PendingCommand>,
}

/// One key that is held: its local queue, and the tenure of its owner.
pub(crate) type HeldKey = (QueueHandle, Tenure);

impl Ownership {
    pub(crate) fn new(engine: &Arc<Engine>, queue: QueueHandle, granted: Granted) -> Self {
        let Granted { hold, scheduler, tenure } = granted;
        let (engine, held, further) = (Arc::clone(engine), Some((queue, tenure)), Vec::new());
        Self { engine, hold, scheduler, held, further, is_counted: false, pending: None }
    }

    /// The same, which counts as pending until `count_as_lock`.
    pub(crate) fn with_pending(mut self, pending: Option<PendingCommand>) -> Self {
        self.pending = pending;
        self
    }

    /// The caller has taken the lock, and has looked for a shutdown since: a drain waits for the
    /// lock from here on.
    pub(crate) fn count_as_lock(&mut self) {
        self.engine.pending.lock_began();
        self.is_counted = true;
        self.pending = None;
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The caller learns of the lock, and has it from here on. `false`: the lock was taken back
    /// meanwhile because the caller was not polled.
    pub(crate) fn take(&mut self) -> bool {
        self.hold.is_taken() || self.take_offer()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Releases the lock after a finished body without waiting for an answer. `Some`: ready once
    /// the command has left over the connection of the caller's runtime, or was answered. `None`:
    /// there is nothing to wait for. The lease was lost, a caller of this process has the lock
    /// next, or the background thread sends the release; later attempts of this process for the key
    /// then go over that thread, after it. `may_wait`: the caller can await the future.
    pub(crate) fn release_unawaited(mut self, may_wait: bool) -> Option<ReleaseFuture> {
        let now = self.engine.clock().now();
        if self.warn_if_unprotected(now) {
            return None;
        }
        let has_several_keys = !self.further.is_empty();
        let body = FinishedBody::new(&self.hold, has_several_keys);
        let finished = |task| ReleaseTask { finished: Some(body.clone()), ..task };
        let tasks = self.let_go(now).map(finished);
        let mut leaving = tasks.filter_map(|task| release::unawaited(task, may_wait));
        if has_several_keys { Some(release::all(leaving.collect())) } else { leaving.next() }
    }

    /// Tells operators if the lease did not hold to the end of the body, which is `now`. Returns
    /// whether it did not.
    fn warn_if_unprotected(&self, now: Moment) -> bool {
        let Some(reason) = self.hold.loss_by(now) else { return false };
        release::warn_unprotected(&self.hold, &reason);
        true
    }

    /// Ends the hold at `now`. Returns what has to be freed on the server; other callers of this
    /// process have the rest. It lets go of each key when the iterator comes to it, so that nothing
    /// is collected for one key: the caller has to come to the end.
    fn let_go(&mut self, now: Moment) -> impl Iterator<Item = ReleaseTask> {
        let ended_in_time = self.held.is_some() && self.scheduler.end(&self.hold, now);
        // A lock that had a `min_hold` is not passed on, even when that is over: each renewal asked
        // for a shorter lease, and one that arrives late would cut the lease of the next caller.
        let pass_on_at = (ended_in_time && !self.hold.has_min_hold()).then_some(now);
        let former = Some(FormerHold {
            template: self.hold.terms.template,
            retain_until: self.hold.retained_until(),
            may_end_at: ended_in_time.then(|| self.hold.may_end_at()),
        });
        let keys = self.held.take().into_iter().chain(std::mem::take(&mut self.further));
        keys.filter_map(move |key| {
            let task = self.let_go_of(key, pass_on_at)?;
            Some(ReleaseTask { former, ..task })
        })
    }

    /// Lets go of a lock that was not released. `false`: this is the child of a fork. The parent
    /// has the lock, and another of its threads may hold a mutex that a drop would lock.
    #[cold]
    fn let_go_in_background(&mut self) -> bool {
        if self.hold.is_forked() {
            std::mem::forget((self.held.take(), std::mem::take(&mut self.further)));
            return false;
        }
        let now = self.engine.clock().now();
        // The background thread sends it: the runtime may be about to end, and its timers with it.
        self.let_go(now).for_each(release::in_background);
        true
    }

    /// `pass_on_at`: when the hold ended, if the lease still held then, and it had no `min_hold`.
    fn let_go_of(
        &self,
        (queue, mut tenure): HeldKey,
        pass_on_at: Option<Moment>,
    ) -> Option<ReleaseTask> {
        let server_end = self.hold.server_end();
        if let Some(now) = pass_on_at
            && self.engine.fifo_queue().is_some()
        {
            tenure.renewed(self.hold.confirmed(), server_end);
            let Some(left) = pass_on(&self.engine, &queue, &self.hold, tenure, now) else {
                // The next caller has the lock: for its former holder, it counts as released.
                let released = Released::Released;
                tell!(debug, key = queue.key().name(), ?released, "lock released");
                return None;
            };
            return Some(ReleaseTask::new(&self.engine, &left, server_end, queue));
        }
        // The release counts before the waiters of this process are told: their attempt would
        // overtake it.
        let task = ReleaseTask::new(&self.engine, &tenure, server_end, queue.another());
        queue.let_go(&self.hold);
        Some(task)
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if self.held.is_some() && !self.let_go_in_background() {
            return;
        }
        if !self.hold.is_taken() {
            drop(self.hold.take_pending());
        }
        // The release counts as pending by now.
        if self.is_counted {
            self.engine.pending.lock_ended();
        }
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ownership").field(&self.hold).finish()
    }
}
