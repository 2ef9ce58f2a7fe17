//! What this process knows of one key.

use std::sync::Arc;
use std::time::Duration;

use super::waiter::Waiter;
use super::waiters::Waiters;
use crate::clock::Moment;
use crate::hold::{Hold, Tenure};
use crate::thread_exit::Unsent;

/// What is known of one key.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    pub(crate) waiters: Waiters,
    /// Who holds the lock here, or did last.
    pub(crate) holder: Option<Arc<Hold>>,
    /// How many who waited here are about to hold it: one, or none.
    pub(crate) promised: u32,
    /// A caller asks Redis by itself.
    pub(crate) direct_attempt: Option<AttemptUnderWay>,
    /// Releases on their way where nobody is told when they arrive.
    pub(crate) releases: u32,
    /// Releases that the background thread has to send; an attempt over another connection could
    /// overtake them.
    pub(crate) late_releases: u32,
    /// A holder of this process let go since the poller looked last.
    pub(crate) is_freed: bool,
    /// Contention credit: full when another process competed for the lock, one less for each grant
    /// without competition.
    contended: u32,
    pub(crate) poller: PollerState,
    /// Callers have left, and the poller has not done yet what follows from that.
    pub(crate) left: Option<Unsent>,
    /// A tenure that its holder gave up for those who wait here, once others were looked after.
    pub(crate) returned: Option<Box<Tenure>>,
}

/// What the poller of the queue does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerState {
    #[default]
    Absent,
    /// It looks at everything before it rests.
    Busy,
    /// It wakes up by itself then, if nothing happens before.
    Resting { until: Moment, why: RestReason },
}

impl PollerState {
    /// Does it wait in the queue of the server, or pause between two attempts?
    pub(crate) fn is_waiting(self) -> bool {
        matches!(self, Self::Resting { why: RestReason::Waits, .. })
    }
}

/// Why a poller rests. It says which news a newcomer can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestReason {
    /// Nobody waits.
    Idle,
    /// The lock is taken in this process. A newcomer can rely on its end only as long as that is
    /// so.
    TakenHere,
    /// It waits in the queue of the server, or asks again after a pause.
    Waits,
}

/// An attempt that a caller makes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptUnderWay {
    pub(crate) id: u64,
    /// When it was asked.
    pub(crate) at: Moment,
}

/// How long other callers wait for the direct attempt of one. The answer may come to a task that is
/// not polled.
pub(crate) const DIRECT_ATTEMPT: Duration = Duration::from_millis(10);

/// So many grants in a row without competition make a lock uncontended again.
pub(crate) const GRANTS_TO_FORGET: u32 = 16;

impl QueueState {
    /// Did another process compete for the lock lately? Then callers enqueue at once.
    pub(crate) fn is_contended(&self) -> bool {
        self.contended > 0
    }

    /// Another process competes for the lock. Returns whether this is news.
    pub(crate) fn contend(&mut self) -> bool {
        std::mem::replace(&mut self.contended, GRANTS_TO_FORGET) == 0
    }

    /// The lock was granted without competition.
    pub(crate) fn calm(&mut self) {
        self.contended = self.contended.saturating_sub(1);
    }

    /// Does somebody in this process hold the lock, as far as it knows?
    pub(crate) fn is_held_here(&self) -> bool {
        self.holder.as_ref().is_some_and(|hold| !hold.is_over())
    }

    /// Is there something that newcomers have to wait for, without asking anybody?
    pub(crate) fn is_taken_here(&self, now: Moment) -> bool {
        self.ends_with_news() || self.direct_attempt_ends(now).is_some()
    }

    /// Does this process have the lock in a way whose end will wake the poller for those who wait?
    pub(crate) fn ends_with_news(&self) -> bool {
        let is_moving = self.promised > 0 || self.returned.is_some() || self.releases > 0;
        is_moving || self.is_held_here()
    }

    /// Until when a direct attempt keeps others from asking, if one does.
    pub(crate) fn direct_attempt_ends(&self, now: Moment) -> Option<Moment> {
        self.direct_attempt
            .map(|attempt| attempt.at.plus(DIRECT_ATTEMPT))
            .filter(|ends| now < *ends)
    }

    /// Does a poller that rests have to look at a newcomer that waits until `end`?
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

    /// Since when it is, as far as that is known.
    pub(crate) fn taken_since(&self, now: Moment) -> Moment {
        let holder = self.holder.as_ref().filter(|hold| !hold.is_over());
        holder.map_or(now, |hold| hold.granted())
    }

    /// The first one who still waits.
    pub(crate) fn first(&mut self) -> Option<&Waiter> {
        while self.waiters.front()?.is_gone() {
            self.waiters.pop_front();
        }
        self.waiters.front()
    }

    /// Takes the first one out, who is to hold the lock.
    pub(crate) fn promise(&mut self) -> Option<Waiter> {
        let waiter = self.waiters.pop_front();
        self.promised += u32::from(waiter.is_some());
        waiter
    }
}
