//! What this process knows about one key.

use std::sync::Arc;
use std::time::Duration;

use super::poller_state::PollerState;
use super::release_counts::CountedRelease;
use super::waiters::Waiters;
use crate::clock::Moment;
use crate::hold::{Hold, Tenure};
use crate::pending::PendingCommand;
use crate::thread_exit::Unsent;

mod waited_for;

/// What is known about one key.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    pub(crate) waiters: Waiters,
    /// Who holds the lock in this process, or held it last.
    pub(crate) holder: Option<Arc<Hold>>,
    /// A former waiter is about to hold the lock.
    pub(crate) is_promised: bool,
    /// How many former waiters are being given the lock by callers that release it. They may be put
    /// back, so the poller does not end.
    pub(crate) in_hand: u32,
    /// The direct attempt of a caller, if one is under way.
    pub(crate) direct_attempt: Option<AttemptUnderWay>,
    /// Unanswered releases whose end no server signals.
    pub(crate) releases: u32,
    /// A holder of this process released, or a release hint came, since the poller looked last.
    pub(crate) is_freed: bool,
    /// Contention credit: full when another process competed for the lock, one less for each grant,
    /// or direct attempt, without competition.
    contention_credit: u32,
    pub(crate) poller: PollerState,
    /// Callers have left, and the poller has not undone their commands yet.
    pub(crate) left: Option<Left>,
    /// A tenure that its holder left for the waiters of this process; other processes have their
    /// turn first. It counts as pending: no caller has the lock meanwhile.
    pub(crate) returned: Option<Box<(Tenure, PendingCommand)>>,
}

/// Callers that have left, until the poller has undone their commands. To be dropped outside of the
/// mutex: this wakes the calls that wait for it.
#[derive(Debug)]
pub(crate) struct Left {
    /// The end of a thread waits for it.
    #[cfg_attr(not(test), expect(dead_code, reason = "its drop tells that they are undone"))]
    pub(crate) unsent: Option<Unsent>,
    /// So does a call that does not wait, and was refused.
    _leaving: CountedRelease,
}

impl Left {
    pub(crate) fn new(unsent: Option<Unsent>, leaving: CountedRelease) -> Self {
        Self { unsent, _leaving: leaving }
    }
}

/// An attempt that a caller makes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptUnderWay {
    pub(crate) id: u64,
    /// When the attempt began.
    pub(crate) at: Moment,
}

/// How long other callers wait for a direct attempt. Its answer may come to a task that is not
/// polled.
pub(crate) const DIRECT_ATTEMPT: Duration = Duration::from_millis(10);

/// After this many grants in a row without competition, a lock counts as uncontended again.
pub(crate) const GRANTS_TO_FORGET: u32 = 16;

impl QueueState {
    /// Did another process compete for the lock recently? Then the poller enqueues at once.
    pub(crate) fn is_contended(&self) -> bool {
        self.contention_credit > 0
    }

    /// Did another process compete for the lock since the last grant? Then a direct attempt would
    /// most likely be refused.
    pub(crate) fn was_just_contended(&self) -> bool {
        self.contention_credit == GRANTS_TO_FORGET
    }

    /// Another process competes for the lock. Returns whether this is new.
    pub(crate) fn note_contention(&mut self) -> bool {
        std::mem::replace(&mut self.contention_credit, GRANTS_TO_FORGET) == 0
    }

    /// The lock was granted without competition, or a caller is about to ask for it by itself.
    pub(crate) fn spend_contention_credit(&mut self) {
        self.contention_credit = self.contention_credit.saturating_sub(1);
    }

    /// Does a caller of this process hold the lock, as far as the process knows?
    pub(crate) fn is_held_here(&self) -> bool {
        self.holder.as_ref().is_some_and(|hold| !hold.is_over())
    }

    /// Do newcomers have to wait for an event of this process before an attempt makes sense?
    pub(crate) fn is_taken_here(&self, now: Moment) -> bool {
        self.ends_with_news() || self.direct_attempt_ends(now).is_some()
    }

    /// Does this process have the lock in a way whose end wakes the poller?
    pub(crate) fn ends_with_news(&self) -> bool {
        let is_moving = self.is_promised || self.returned.is_some() || self.releases > 0;
        is_moving || self.is_held_here()
    }

    /// Until when a direct attempt makes other callers wait, if one is under way.
    pub(crate) fn direct_attempt_ends(&self, now: Moment) -> Option<Moment> {
        self.direct_attempt
            .map(|attempt| attempt.at.plus(DIRECT_ATTEMPT))
            .filter(|ends| now < *ends)
    }
}
