//! Releases whose caller awaits them, for the outcome or for a while.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::inline_release::{InlineRelease, inline, patience};
use super::release_future::ReleaseFuture;
use super::task::ReleaseTask;
use crate::backend::{Fault, Found, LockBackend, Reply};
use crate::background_thread;
use crate::clock::Clock;
use crate::error::NodeErrorKind;
use crate::state::Released;

impl InlineRelease {
    /// Sends it over `route`.
    fn send<'a>(&'a self, route: &'a dyn LockBackend) -> Reply<'a, Found> {
        match self.task() {
            Some(task) => route.release(task.request(), task.engine.reply_timeout),
            None => unreachable!("it is answered once"),
        }
    }

    /// What the answer to the release means for a caller who awaits the outcome.
    pub(super) fn conclude(mut self, answer: Result<Found, Fault>) -> Conclusion {
        match answer {
            Err(silence) if self.may_be_undriven(&silence) => {
                let (reply, told) = oneshot::channel();
                self.continue_in_background(Some(&silence), Some(reply));
                Conclusion::Later { told, silence }
            }
            answer => Conclusion::Now(self.settle(answer)),
        }
    }

    /// Perhaps it was not the server that was silent: a caller who blocks its runtime while it
    /// waits keeps that runtime from driving its connection.
    fn may_be_undriven(&self, fault: &Fault) -> bool {
        let is_local = self.task().is_some_and(|task| !task.engine.is_embedded());
        let is_silence = fault.nodes.iter().all(|node| node.kind() == NodeErrorKind::NoReply);
        is_local && is_silence && !fault.is_final
    }
}

/// What has become of an awaited release.
pub(super) enum Conclusion {
    Now(Result<Released, Fault>),
    /// The background finds out after the `silence` of a connection of the caller's runtime.
    Later {
        told: oneshot::Receiver<Result<Released, Fault>>,
        silence: Fault,
    },
}

impl Conclusion {
    pub(super) async fn outcome(self) -> Result<Released, Fault> {
        match self {
            Self::Now(outcome) => outcome,
            Self::Later { told, silence } => told.await.unwrap_or(Err(silence)),
        }
    }
}

/// Sends one release for a caller who has no need of the answer, and awaits it for a while. Then
/// the background has the release. The timer works while the caller blocks its runtime.
pub(super) fn awaited_for_a_while(task: ReleaseTask, route: Arc<dyn LockBackend>) -> ReleaseFuture {
    let (engine, patience) = (Arc::clone(&task.engine), patience(&task.engine));
    let released = inline(task, route, Clock::Boot.now());
    ReleaseFuture::here(&engine, async move {
        let end = Instant::now() + patience;
        let released = background_thread::until(None, end, released).await;
        // Its task reports what it finds: once, of a hold of several keys as well.
        released.unwrap_or(Ok(Released::Unknown)).map(|_| Released::Unknown)
    })
}

/// The same for a caller who awaits the outcome: what the background finds counts after a silence.
pub(crate) fn awaited(
    task: ReleaseTask,
    route: Arc<dyn LockBackend>,
) -> impl Future<Output = Result<Released, Fault>> + Send + 'static {
    let release = InlineRelease::new(task);
    async move {
        let answer = release.send(&*route).await;
        release.conclude(answer).outcome().await
    }
}
