//! The time of an acquire, which asks the nodes several times, one after another.

use std::time::Duration;

use tokio::time::Instant;

/// When an acquire has to end, and for how long one of its steps may wait for a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    ends: Instant,
    longest: Duration,
}

impl Steps {
    /// `within`: all of them together.
    pub(super) fn begin(within: Duration, longest: Duration) -> Self {
        Self { ends: Instant::now() + within, longest }
    }

    /// How long the next step may wait for a node.
    pub(super) fn left(self) -> Duration {
        self.longest.min(self.ends.saturating_duration_since(Instant::now()))
    }
}
