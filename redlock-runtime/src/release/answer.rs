//! What a release found, when it comes.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::backend::Fault;
use crate::state::Released;

type Outcome = Result<Released, Fault>;

/// The answer to a release. `None`: the background stopped. Dropping it loses the answer only.
pub(crate) enum Answer {
    Now(Released),
    /// The background does it.
    Kept(oneshot::Receiver<Outcome>),
    /// It is sent by whoever polls. In a mutex that nobody locks, to be `Sync`.
    Here(Mutex<Pin<Box<dyn Future<Output = Outcome> + Send>>>),
}

impl Answer {
    pub(super) fn here(flight: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Here(Mutex::new(Box::pin(flight)))
    }
}

impl Future for Answer {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(released) => Poll::Ready(Some(Ok(*released))),
            Self::Kept(answer) => Pin::new(answer).poll(cx).map(Result::ok),
            Self::Here(flight) => {
                let flight = flight.get_mut().unwrap_or_else(PoisonError::into_inner);
                flight.as_mut().poll(cx).map(Some)
            }
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}
