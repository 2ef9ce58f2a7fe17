//! What this process knows about one key.

use std::sync::Arc;
use std::time::Duration;

use super::waiter::Waiter;
use super::waiters::Waiters;
use crate::clock::Moment;
use crate::hold::{Hold, Tenure};
use crate::thread_exit::Unsent;

/// What is known about one key.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    pub(crate) waiters: Waiters,
    /// Who holds the lock in this process, or held it last.
    pub(crate) holder: Option<Arc<Hold>>,
    /// How many former waiters are about to hold the lock: one or none.
    pub(crate) promised: u32,
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
    contended: u32,
    pub(crate) poller: PollerState,
    /// Callers have left, and the poller has not undone their commands yet.
    pub(crate) left: Option<Unsent>,
    /// A tenure that its holder left for the waiters of this process; other processes have their
    /// turn first.
    pub(crate) returned: Option<Box<Tenure>>,
}

/// What the poller of the queue does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerState {
    #[default]
    Absent,
    /// It checks everything before it rests.
    Busy,
    /// It rests, and wakes up by itself at `until` unless it is notified before.
    Resting { until: Moment, why: RestReason },
}

impl PollerState {
    /// Does it wait in the queue of the server, or pause between two attempts?
    pub(crate) fn is_waiting(self) -> bool {
        matches!(self, Self::Resting { why: RestReason::Waits, .. })
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
    /// It waits in the queue of the server, or pauses between two attempts.
    Waits,
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
        self.contended > 0
    }

    /// Did another process compete for the lock since the last grant? Then a direct attempt would
    /// most likely be refused.
    pub(crate) fn is_hot(&self) -> bool {
        self.contended == GRANTS_TO_FORGET
    }

    /// Another process competes for the lock. Returns whether this is new.
    pub(crate) fn contend(&mut self) -> bool {
        std::mem::replace(&mut self.contended, GRANTS_TO_FORGET) == 0
    }

    /// The lock was granted without competition, or is about to be.
    pub(crate) fn calm(&mut self) {
        self.contended = self.contended.saturating_sub(1);
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
        let is_moving = self.promised > 0 || self.returned.is_some() || self.releases > 0;
        is_moving || self.is_held_here()
    }

    /// Until when a direct attempt makes other callers wait, if one is under way.
    pub(crate) fn direct_attempt_ends(&self, now: Moment) -> Option<Moment> {
        self.direct_attempt
            .map(|attempt| attempt.at.plus(DIRECT_ATTEMPT))
            .filter(|ends| now < *ends)
    }

    /// Does a resting poller have to wake up for a newcomer that waits until `end`?
    pub(crate) fn needs_poller(&self, end: Moment) -> bool {
        match self.poller {
            PollerState::Absent | PollerState::Busy => true,
            PollerState::Resting { until, why } => {
                end < until
                    || match why {
                        RestReason::Idle => true,
                        RestReason::TakenHere => !self.ends_with_news(),
                        RestReason::Waits => false,
                    }
            }
        }
    }

    /// Since when the lock is taken in this process, as far as that is known.
    pub(crate) fn taken_since(&self, now: Moment) -> Moment {
        let holder = self.holder.as_ref().filter(|hold| !hold.is_over());
        holder.map_or(now, |hold| hold.begun())
    }

    /// The first waiter that has not gone.
    pub(crate) fn first(&mut self) -> Option<&Waiter> {
        while self.waiters.front()?.is_gone() {
            self.waiters.pop_front();
        }
        self.waiters.front()
    }

    /// Removes the first waiter, which is about to hold the lock.
    pub(crate) fn promise(&mut self) -> Option<Waiter> {
        let waiter = self.waiters.pop_front();
        self.promised += u32::from(waiter.is_some());
        waiter
    }
}
