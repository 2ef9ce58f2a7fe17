//! What a release found, when it comes.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use crate::backend::Fault;
use crate::state::Released;

type ReleaseOutcome = Result<Released, Fault>;

/// The answer to a release. `None`: the background stopped. Dropping it loses the answer only.
pub(crate) enum ReleaseFuture {
    Now(Released),
    /// The background does it.
    Kept(oneshot::Receiver<ReleaseOutcome>),
    /// Nobody waits for it, but for the command to leave: `told` by a task behind the one that
    /// sends it, or until it is `over`, as its connection broke or the background took it over.
    Leaving {
        told: oneshot::Receiver<()>,
        over: oneshot::Receiver<()>,
    },
    /// It is sent by whoever polls. In a mutex that nobody locks, to be `Sync`.
    Here(Mutex<Pin<Box<dyn Future<Output = ReleaseOutcome> + Send>>>),
}

impl ReleaseFuture {
    /// A command was given to the task that drives its connection, on the runtime of the caller.
    ///
    /// That task is woken, and must run before the caller goes on, computes or blocks: a worker
    /// thread that the caller keeps busy does not come to it. Another task tells that it did, one
    /// that is woken later and lets others run before it. To let the caller itself be polled again
    /// would not show it: an executor inside of the runtime's task (`LocalSet`, `join!`) does so
    /// without letting any other task run. A caller that blocks on it, and its runtime with it,
    /// goes on when the background has taken it over.
    pub(crate) fn leaving(over: oneshot::Receiver<()>) -> Self {
        let (tell, told) = oneshot::channel();
        let mut is_woken = false;
        let last = std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut is_woken, true) {
                return Poll::Ready(());
            }
            // A task that wakes itself comes behind all that wait for the same worker.
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        // A runtime that is about to end drops it, which ends the wait as well.
        drop(tokio::spawn(async move {
            last.await;
            let _ = tell.send(());
        }));
        Self::Leaving { told, over }
    }

    pub(crate) fn here(flight: impl Future<Output = ReleaseOutcome> + Send + 'static) -> Self {
        Self::Here(Mutex::new(Box::pin(flight)))
    }
}

impl Future for ReleaseFuture {
    type Output = Option<ReleaseOutcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(released) => Poll::Ready(Some(Ok(*released))),
            // Not bound by the budget of the task: one that blocks on a release would never hear.
            Self::Kept(answer) => pin!(unconstrained(answer)).poll(cx).map(Result::ok),
            Self::Leaving { told, over } => {
                let has_left = pin!(unconstrained(told)).poll(cx).is_ready()
                    || pin!(unconstrained(over)).poll(cx).is_ready();
                if has_left { Poll::Ready(Some(Ok(Released::Released))) } else { Poll::Pending }
            }
            Self::Here(flight) => {
                let flight = flight.get_mut().unwrap_or_else(PoisonError::into_inner);
                pin!(unconstrained(flight)).poll(cx).map(Some)
            }
        }
    }
}

impl fmt::Debug for ReleaseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReleaseFuture").finish_non_exhaustive()
    }
}
