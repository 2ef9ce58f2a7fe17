//! The clock on which the leases of a lock are counted.

use tokio::runtime::Handle;

use crate::clock::{Clock, Moment, paused_runtime};

/// That of a runtime whose clock a test has paused; `None`: real time.
#[derive(Debug, Clone)]
pub(super) struct LeaseClock(Option<Handle>);

impl LeaseClock {
    /// The clock of the caller.
    pub(super) fn here() -> Self {
        Self(paused_runtime())
    }

    /// What it shows, whoever asks. The clock of a runtime that has ended stands still.
    pub(super) fn now(&self) -> Moment {
        Clock::of_runtime(self.0.as_ref())
    }
}

impl PartialEq for LeaseClock {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().map(Handle::id) == other.0.as_ref().map(Handle::id)
    }
}
