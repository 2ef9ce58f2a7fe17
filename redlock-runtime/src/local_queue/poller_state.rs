//! The state of a poller, and why it rests.

use crate::clock::Moment;

/// What the poller of a queue does, and until when.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerState {
    /// No poller runs. The next caller that waits starts one.
    #[default]
    Absent,
    /// It checks everything before it rests.
    Busy,
    /// It rests, and wakes up by itself at `until` unless it is notified before.
    Resting { until: Moment, why: RestReason },
}

impl PollerState {
    /// Does it rest with something to give up once no caller waits: its entry in the queue of the
    /// server, or the next of its attempts?
    pub(crate) fn is_waiting(self) -> bool {
        let reasons = [RestReason::Waits, RestReason::TakenHereInQueue];
        matches!(self, Self::Resting { why, .. } if reasons.contains(&why))
    }
}

/// Why a poller rests. This decides whether a newcomer has to wake it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestReason {
    /// No caller waits.
    Idle,
    /// The lock is taken in this process. A newcomer can rely on being woken at its end only while
    /// that is so.
    TakenHere,
    /// The same, while it has an entry in the queue of the server.
    TakenHereInQueue,
    /// It waits in the queue of the server, or pauses between two attempts.
    Waits,
}
