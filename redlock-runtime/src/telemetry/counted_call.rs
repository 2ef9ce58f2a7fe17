//! Counts a call that wants a lock, from its beginning to its end.

use std::time::Duration;

use super::{LockLabels, call, call_ended};
use crate::error::LockError;

/// A counted call. A call that is dropped before its end counts as cancelled.
pub(crate) struct CountedCall {
    of: LockLabels,
    /// The result to be counted if the lock is busy for as long as the call waits.
    busy: &'static str,
    has_ended: bool,
}

impl CountedCall {
    pub(crate) fn begin(of: LockLabels, busy: &'static str) -> Self {
        call(of);
        Self { of, busy, has_ended: false }
    }

    /// Notes how long the call waited for its lock, or why it has none.
    pub(crate) fn end(mut self, granted: Result<Duration, &LockError>) {
        self.has_ended = true;
        let result = match granted {
            Ok(_) => "acquired",
            Err(LockError::Timeout { .. }) => self.busy,
            Err(LockError::Unavailable { nodes, .. }) => {
                debug_assert!(!nodes.is_empty(), "no server is named, and no cause");
                "unavailable"
            }
            Err(LockError::TooManyWaiters { .. }) => "too_many_waiters",
            Err(LockError::ShuttingDown { .. }) => "shutting_down",
            Err(_) => "error",
        };
        call_ended(self.of, result, granted.ok());
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        if !self.has_ended {
            call_ended(self.of, "cancelled", None);
        }
    }
}
