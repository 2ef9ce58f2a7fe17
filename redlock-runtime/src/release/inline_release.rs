//! A release over the connection of a caller's runtime, which the background continues where its
//! answer does not come.

use std::sync::Arc;
use std::time::Duration;

use super::task::ReleaseTask;
use crate::backend::{Fault, Found, LockBackend, Reply};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::state::Released;

mod continued;

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
        let Some(task) = self.0.take() else { unreachable!("it is answered once") };
        Ok(task.finish(found))
    }

    /// Sends it over `route` for a caller who waits no longer than [`patience`], as a part of the
    /// batch that is forming, if there is one. `now`: the moment of this poll.
    fn send_cheaply<'a>(&'a self, route: &'a dyn LockBackend, now: Moment) -> Reply<'a, Found> {
        let Some(task) = &self.0 else { unreachable!("it is answered once") };
        let (request, within) = (task.request(), task.engine.reply_timeout);
        let departures = route.abilities().departures;
        let joined = departures.and_then(|departures| departures.join(request, within, now));
        joined.unwrap_or_else(|| route.release(request, within))
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

/// Sends one release over `route` with the first poll, whose moment is `now`, for a caller who
/// waits no longer than [`patience`]. The background continues it after a failure, or when the
/// future is dropped.
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
