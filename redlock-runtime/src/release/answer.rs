//! What a release found, when it comes.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::task::coop::{has_budget_remaining, unconstrained};

use crate::backend::Fault;
use crate::state::Released;

type Outcome = Result<Released, Fault>;

/// The answer to a release. `None`: the background stopped. Dropping it loses the answer only.
pub(crate) enum Answer {
    Now(Released),
    /// The background does it.
    Kept(oneshot::Receiver<Outcome>),
    /// Nobody waits for it, but for the command to leave: so often others run before.
    Leaving(u8),
    /// It is sent by whoever polls. In a mutex that nobody locks, to be `Sync`.
    Here(Mutex<Pin<Box<dyn Future<Output = Outcome> + Send>>>),
}

impl Answer {
    /// A command was given to the task that drives its connection, on the runtime of the caller.
    ///
    /// That task is woken, and runs before the caller does again; but a worker thread on which the
    /// caller goes on, and computes or blocks, does not come to it. So the caller lets it run
    /// first: once, or twice where it has used up its time and may be put before the other.
    pub(super) fn leaving() -> Self {
        Self::Leaving(if has_budget_remaining() { 1 } else { 2 })
    }

    pub(super) fn here(flight: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Here(Mutex::new(Box::pin(flight)))
    }
}

impl Future for Answer {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(released) => Poll::Ready(Some(Ok(*released))),
            // Not bound by the budget of the task: one that blocks on a release would never hear.
            Self::Kept(answer) => pin!(unconstrained(answer)).poll(cx).map(Result::ok),
            Self::Leaving(0) => Poll::Ready(Some(Ok(Released::Released))),
            Self::Leaving(turns) => {
                *turns -= 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Self::Here(flight) => {
                let flight = flight.get_mut().unwrap_or_else(PoisonError::into_inner);
                pin!(unconstrained(flight)).poll(cx).map(Some)
            }
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}
