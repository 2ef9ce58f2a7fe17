//! The future of a release's outcome.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use crate::backend::Fault;
use crate::state::Released;

pub(super) type ReleaseOutcome = Result<Released, Fault>;

/// The outcome of a release. `None`: the background stopped. Dropping the future loses the outcome
/// only.
pub(crate) enum ReleaseFuture {
    Now(Released),
    /// The background sends the release.
    Kept(oneshot::Receiver<ReleaseOutcome>),
    /// The release is unawaited, except that its command has to leave. `has_left` is sent by a task
    /// that runs after the one that sends the command. `over` ends when the connection broke or the
    /// background took the release over.
    Leaving {
        has_left: oneshot::Receiver<()>,
        over: oneshot::Receiver<()>,
    },
    /// The release is sent by the task that polls. The mutex is never locked: it makes the future
    /// `Sync`.
    Here(Mutex<Pin<Box<dyn Future<Output = ReleaseOutcome> + Send>>>),
    /// Those of all keys of a hold.
    All(Pin<Box<dyn Future<Output = Option<ReleaseOutcome>> + Send + Sync>>),
}

impl ReleaseFuture {
    /// A command was given to the task that drives its connection, on the runtime of the caller.
    ///
    /// That task is woken, and must run before the caller goes on, computes or blocks: a worker
    /// thread that the caller keeps busy does not run it. Another task, woken later, tells that it
    /// did, as it lets other tasks run first. A second poll of the caller would not prove it: an
    /// executor inside of a task (`LocalSet`, `join!`) polls the caller again without letting other
    /// tasks run. A caller that blocks on this future, and its runtime with it, continues when the
    /// background has taken the release over.
    pub(crate) fn leaving(over: oneshot::Receiver<()>) -> Self {
        let (tell, has_left) = oneshot::channel();
        let mut is_woken = false;
        let last = std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut is_woken, true) {
                return Poll::Ready(());
            }
            // A task that wakes itself runs after all tasks that wait for the same worker.
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        // A runtime that is about to end drops this task, which ends the wait as well.
        drop(tokio::spawn(async move {
            last.await;
            let _ = tell.send(());
        }));
        Self::Leaving { has_left, over }
    }

    pub(crate) fn here(sending: impl Future<Output = ReleaseOutcome> + Send + 'static) -> Self {
        Self::Here(Mutex::new(Box::pin(sending)))
    }
}

impl Future for ReleaseFuture {
    type Output = Option<ReleaseOutcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(released) => Poll::Ready(Some(Ok(*released))),
            // Not bound by the cooperative budget: a task that blocks on a release would never get
            // the outcome.
            Self::Kept(answer) => pin!(unconstrained(answer)).poll(cx).map(Result::ok),
            Self::Leaving { has_left, over } => {
                let has_left = pin!(unconstrained(has_left)).poll(cx).is_ready()
                    || pin!(unconstrained(over)).poll(cx).is_ready();
                if has_left { Poll::Ready(Some(Ok(Released::Released))) } else { Poll::Pending }
            }
            Self::Here(sending) => {
                let sending = sending.get_mut().unwrap_or_else(PoisonError::into_inner);
                pin!(unconstrained(sending)).poll(cx).map(Some)
            }
            Self::All(releases) => releases.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for ReleaseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReleaseFuture").finish_non_exhaustive()
    }
}
