//! The future of a release's outcome.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use crate::backend::Fault;
use crate::engine::Engine;
use crate::mutex::Mutex;
use crate::process::OfProcess;
use crate::state::Released;

pub(super) type ReleaseOutcome = Result<Released, Fault>;

pub(super) type Sending = Pin<Box<dyn Future<Output = ReleaseOutcome> + Send>>;

/// The outcome of a release. `None`: the background stopped. Dropping the future loses the outcome
/// only.
pub(crate) enum ReleaseFuture {
    Now(Released),
    /// The background sends the release.
    InBackground(oneshot::Receiver<ReleaseOutcome>),
    /// The release is unawaited, except that its command has to leave. `over` ends when it was
    /// answered, or when the background took it over: a caller that blocks on this future, and its
    /// runtime with it, continues then.
    Leaving {
        departure: Option<oneshot::Receiver<()>>,
        over: oneshot::Receiver<()>,
    },
    /// The release is sent by the task that polls. The mutex is never locked: it makes the future
    /// `Sync`.
    Here(Mutex<OfProcess<Sending>>),
    /// Those of all keys of a hold.
    All(Pin<Box<dyn Future<Output = Option<ReleaseOutcome>> + Send + Sync>>),
}

impl ReleaseFuture {
    pub(crate) fn here(
        engine: &Engine,
        sending: impl Future<Output = ReleaseOutcome> + Send + 'static,
    ) -> Self {
        Self::Here(Mutex::new(OfProcess::new(engine.process, engine.polled_by_caller(sending))))
    }
}

impl Future for ReleaseFuture {
    type Output = Option<ReleaseOutcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(released) => Poll::Ready(Some(Ok(*released))),
            // Not bound by the cooperative budget: a task that blocks on a release would never get
            // the outcome.
            Self::InBackground(answer) => pin!(unconstrained(answer)).poll(cx).map(Result::ok),
            Self::Leaving { departure, over } => {
                let has_left = departure
                    .as_mut()
                    .is_some_and(|departure| pin!(unconstrained(departure)).poll(cx).is_ready())
                    || pin!(unconstrained(over)).poll(cx).is_ready();
                // It has left: its task reports what it finds.
                if has_left { Poll::Ready(Some(Ok(Released::Unknown))) } else { Poll::Pending }
            }
            Self::Here(sending) => {
                let sending = sending.get_mut();
                pin!(unconstrained(sending)).poll(cx).map(Some)
            }
            Self::All(releases) => releases.as_mut().poll(cx),
        }
    }
}
