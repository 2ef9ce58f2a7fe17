//! A release over the connection of a caller's runtime, which the background continues where its
//! answer does not come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::task::ReleaseTask;
use crate::backend::{Fault, Found, LockBackend, Reply};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::shield::tell;
use crate::state::Released;

/// A release that is on its way from the caller's runtime, which may stop at any moment. If it is
/// dropped before its answer came, the background takes it.
pub(super) struct InlineRelease(Option<ReleaseTask>);

impl InlineRelease {
    pub(super) fn new(task: ReleaseTask) -> Self {
        Self(Some(task))
    }

    /// `None`: its answer came, or the background sends it.
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
            self.continue_in_background(Some(&fault), None);
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
    pub(super) fn continue_in_background(
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
        if let Err(error) = executor.spawn(task.into_background_work()) {
            tell!(warn, key = key.name(), %error, "lock not released");
        }
    }
}

impl Drop for InlineRelease {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.continue_in_background(None, None);
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
