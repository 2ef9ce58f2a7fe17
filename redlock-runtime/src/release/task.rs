//! One release: its attempts, on the runtime of the caller or in the background, and its outcome.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::repetition::Repetition;
use super::undo::{clean_up, leave};
use super::unprotected::FinishedBody;
use crate::backend::{Claim, Fault, Found, LockBackend, Release, Reply, TokensUsed};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::NodeError;
use crate::executor;
use crate::hold::{Leftovers, Tenure};
use crate::local_queue::{QueueHandle, ReleaseUnderWay};
use crate::pending::PendingCommand;
use crate::report::Topic;
use crate::shield::{shielded, tell};
use crate::state::Released;
use crate::thread_exit::Unsent;

/// One release, retried until it is answered or until the lease would be over anyway.
pub(crate) struct ReleaseTask {
    pub(crate) engine: Arc<Engine>,
    pub(crate) claim: Claim,
    /// Where unused reserved fencing tokens are to be given back.
    pub(crate) unused: Option<TokensUsed>,
    pub(crate) leftovers: Leftovers,
    /// The end of `min_hold`: until then the lock stays taken.
    pub(crate) retain_until: Option<Moment>,
    /// From this moment on the server may have ended the lease by itself, so that what the release
    /// finds proves no loss. `None`: nobody held the lock, or its lease was over before its holder
    /// let go of it.
    pub(crate) held_until: Option<Moment>,
    /// From this moment on the server has dropped the lease by itself.
    pub(crate) until: Moment,
    /// An earlier attempt was not answered.
    pub(crate) is_unknown: bool,
    pub(crate) reply: Option<oneshot::Sender<Result<Released, Fault>>>,
    pub(crate) pending: PendingCommand,
    pub(crate) unsent: Option<Unsent>,
    /// Its place in the local queue of the key; `None`: no caller of this process can meet it.
    pub(crate) under_way: Option<ReleaseUnderWay>,
    /// Set if a body has finished, and this task reports what the release finds.
    pub(crate) finished: Option<FinishedBody>,
}

impl ReleaseTask {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        tenure: &Tenure,
        until: Moment,
        queue: Option<QueueHandle>,
    ) -> Self {
        // Where the server signals a release to waiters, they need not wait for its end here.
        let is_awaited = engine.fifo_queue().is_none();
        Self {
            engine: Arc::clone(engine),
            claim: tenure.claim.clone(),
            unused: tenure.unused(),
            leftovers: tenure.leftovers(),
            retain_until: None,
            held_until: None,
            until,
            is_unknown: false,
            reply: None,
            pending: engine.pending.begin(),
            unsent: None,
            under_way: queue.map(|queue| queue.begin_release(is_awaited)),
            finished: None,
        }
    }

    /// Can it be sent as a part of a batch?
    pub(crate) fn may_join(&self) -> bool {
        self.request().may_join()
    }

    /// Nobody awaits this release, which leaves over the connection of a caller.
    pub(super) fn unawaited(mut self) -> Self {
        self.under_way.iter_mut().for_each(ReleaseUnderWay::leaves);
        self
    }

    /// Continues the release in the background.
    pub(crate) fn in_background(mut self) -> impl Future<Output = ()> + Send {
        if self.unsent.is_none() && !self.engine.is_embedded() {
            self.unsent = Some(Unsent::here());
        }
        let leaving = self.under_way.as_mut().and_then(ReleaseUnderWay::goes_on_in_background);
        async move {
            // What waits for this comes after the first poll, which sends the release.
            drop(leaving);
            self.run().await;
        }
    }

    async fn run(mut self) {
        let mut repetition = Repetition::begin(&self.engine);
        loop {
            let answer =
                self.engine.backend.release(self.request(), self.engine.reply_timeout).await;
            drop(self.unsent.take());
            let fault = match answer {
                Ok(found) => {
                    self.finish(found);
                    return;
                }
                Err(fault) => fault,
            };
            self.note_failure(&fault);
            let retry_at = repetition.next(&self.engine);
            if fault.ends_releases() || retry_at >= self.until {
                return self.give_up(fault);
            }
            // The caller gets the fault at once; the background retries without it.
            if let Some(reply) = self.reply.take() {
                shielded(|| reply.send(Err(fault)));
            }
            repetition.rest(&self.engine, retry_at).await;
        }
    }

    /// An attempt has failed. Local waiters ask for themselves from here on: the next attempts may
    /// fail for as long as the lease lasts.
    pub(super) fn note_failure(&mut self, fault: &Fault) {
        self.is_unknown |= fault.is_unknown;
        self.under_way.iter_mut().for_each(ReleaseUnderWay::wake_waiters);
    }

    /// What one attempt sends.
    pub(super) fn request(&self) -> Release<'_> {
        let may_be_queued = self.leftovers.may_be_queued;
        let left = |until: Moment| until.since(self.engine.clock().now());
        Release {
            claim: &self.claim,
            // A queued owner may have lost its counter, so its unused tokens are not given back.
            unused: self.unused.filter(|_| !may_be_queued),
            may_be_queued,
            was_queued: self.leftovers.was_queued,
            ahead: None,
            is_contended: self.under_way.as_ref().is_some_and(ReleaseUnderWay::is_contended),
            retain: self.retain_until.map(left).filter(|left| !left.is_zero()),
        }
    }

    pub(crate) fn finish(self, found: Found) -> Released {
        let has_ended = |at: Moment| self.engine.clock().now() >= at;
        let released = match found {
            Found::Ours => Released::Released,
            Found::Unclear => Released::Unknown,
            // An earlier attempt that was never answered may have freed the lock, or handed it
            // over.
            Found::Gone | Found::Stolen if self.is_unknown => Released::Unknown,
            Found::Gone | Found::Stolen if self.held_until.is_some_and(has_ended) => {
                Released::Unknown
            }
            Found::Gone => Released::Expired,
            Found::Stolen => Released::Stolen,
        };
        tell!(debug, key = self.claim.key.name(), ?released, "lock released");
        // `retain` leaves an entry of the owner in the queue of the server.
        let must_leave_queue = self.retain_until.is_some() && self.leftovers.may_be_queued;
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

    pub(crate) fn give_up(self, fault: Fault) {
        let nodes = fault.nodes_text();
        let key = self.claim.key.name();
        if fault.nodes.iter().all(NodeError::is_outage) {
            // The outage is told by itself.
            tell!(debug, key, %nodes, "lock was not released before its lease ended");
        } else if executor::admits(&self.engine.reports, Topic::Unreleased, "") {
            tell!(warn, key, %nodes, "lock could not be released; it is free when its lease ends");
        } else {
            tell!(debug, key, %nodes, "lock could not be released; it is free when its lease ends");
        }
        if let Some(reply) = self.reply {
            shielded(|| reply.send(Err(fault)));
        }
    }
}

/// Sends a release from the background.
pub(crate) fn in_background(task: ReleaseTask) {
    let (engine, key) = (Arc::clone(&task.engine), task.claim.key.clone());
    let mut task = Box::pin(task.in_background());
    if engine.is_done_here(task.as_mut()) {
        return;
    }
    if let Err(error) = engine.executor().spawn(task) {
        tell!(warn, key = key.name(), %error, "lock not released");
    }
}

/// Frees a lock that is no longer wanted by any caller.
pub(crate) fn free(engine: &Arc<Engine>, tenure: &Tenure) {
    in_background(ReleaseTask::new(engine, tenure, tenure.server_end(), None));
}

/// A release that is on its way from the caller's runtime, which may stop at any moment. If it is
/// dropped before its answer came, the background takes it.
pub(super) struct InlineRelease(Option<ReleaseTask>);

impl InlineRelease {
    pub(super) fn new(task: ReleaseTask) -> Self {
        Self(Some(task))
    }

    /// `None`: its answer came.
    pub(super) fn task(&self) -> Option<&ReleaseTask> {
        self.0.as_ref()
    }

    /// What the answer to the release means for its caller.
    pub(super) fn settle(&mut self, answer: Result<Found, Fault>) -> Result<Released, Fault> {
        let found = answer.map_err(|fault| self.failed(fault))?;
        Ok(self.0.take().map_or(Released::Released, |task| task.finish(found)))
    }

    fn failed(&mut self, fault: Fault) -> Fault {
        if !fault.ends_releases() {
            self.hand_over(Some(&fault), None);
        } else if let Some(task) = self.0.take() {
            task.give_up(fault.clone());
        }
        fault
    }

    /// Sends it over `route`.
    pub(super) fn send<'a>(&'a self, route: &'a dyn LockBackend) -> Reply<'a, Found> {
        match &self.0 {
            Some(task) => route.release(task.request(), task.engine.reply_timeout),
            None => unreachable!("it is answered once"),
        }
    }

    /// Sends it over `route` for a caller who waits no longer than [`patience`]: where a batch
    /// forms `now`, as a part of that.
    fn send_cheaply<'a>(&'a self, route: &'a dyn LockBackend, now: Moment) -> Reply<'a, Found> {
        let Some(task) = &self.0 else { unreachable!("it is answered once") };
        let (request, within) = (task.request(), task.engine.reply_timeout);
        let departures = route.abilities().departures;
        let joined = departures.and_then(|departures| departures.join(request, within, now));
        joined.unwrap_or_else(|| route.release(request, within))
    }

    /// The background sends the release from here on, beginning anew, and tells `reply` what its
    /// first attempt finds. `failed`: why the try here has failed; `None`: its answer is not known.
    pub(super) fn hand_over(
        &mut self,
        failed: Option<&Fault>,
        reply: Option<oneshot::Sender<Result<Released, Fault>>>,
    ) {
        let Some(mut task) = self.0.take() else { return };
        if task.engine.check_process().is_err() {
            // This is a copy in the child of a fork: the parent sends the release.
            return std::mem::forget(task);
        }
        match failed {
            Some(fault) => task.note_failure(fault),
            None => task.is_unknown = true,
        }
        task.reply = reply;
        let (executor, key) = (task.engine.executor(), task.claim.key.clone());
        if let Err(error) = executor.spawn(task.in_background()) {
            tell!(warn, key = key.name(), %error, "lock not released");
        }
    }
}

impl Drop for InlineRelease {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.hand_over(None, None);
        }
    }
}

/// For how long a release without an answer stays on the runtime of a caller who does not ask for
/// that answer.
pub(super) fn patience(engine: &Engine) -> Duration {
    engine.reply_timeout / 4
}

/// Sends one release over `route`, with the first poll, which is `now`, for a caller who waits no
/// longer than [`patience`]. The background continues it after a failure, or when the future is
/// dropped.
pub(super) fn inline(
    task: ReleaseTask,
    route: Arc<dyn LockBackend>,
    now: Moment,
) -> impl Future<Output = Result<Released, Fault>> + Send + 'static {
    let mut release = InlineRelease::new(task);
    async move {
        let answer = release.send_cheaply(&*route, now).await;
        release.settle(answer)
    }
}
