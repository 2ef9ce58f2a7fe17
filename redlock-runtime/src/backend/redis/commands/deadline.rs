//! The deadline of a call, and the timer that keeps it.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::redis::connection::{SharedConnection, Source};

/// When the answer to a call must have come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) end: Instant,
    /// How long the call may take in all, for those who are told that it has failed.
    pub(crate) within: Duration,
}

impl Deadline {
    pub(crate) fn after(within: Duration) -> Self {
        Self { end: Instant::now() + within, within }
    }

    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Runs `future` until the deadline, by a timer that works even while the caller blocks its own
/// runtime. `None`: the time is over.
pub(super) async fn bounded<S: Source, F: Future>(
    connection: &SharedConnection<S>,
    deadline: &Deadline,
    future: Pin<&mut F>,
) -> Option<F::Output> {
    connection.run_until(deadline.end, future).await
}
