//! What this process knows of one key.

use std::sync::Arc;
use std::time::Duration;

use super::place::Waiter;
use super::tenure::Tenure;
use super::waiters::Waiters;
use crate::clock::Moment;
use crate::release::Unsent;
use crate::renewal::Hold;

/// What is known of one key.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) waiters: Waiters,
    /// Who holds the lock here, or did last.
    pub(super) holder: Option<Arc<Hold>>,
    /// How many who waited here are about to hold it: one, or none.
    pub(super) promised: u32,
    /// A caller asks Redis by itself.
    pub(super) question: Option<Question>,
    /// Releases on their way where nobody is told when they arrive.
    pub(super) releases: u32,
    /// Releases that the keeper has to send, which a question by another way could overtake.
    pub(super) late_releases: u32,
    /// A holder of this process let go since the clerk looked last.
    pub(super) is_freed: bool,
    /// For how many more questions others are taken to want it, too: they did when it was asked for
    /// last, or a little before.
    contended: u32,
    pub(super) clerk: Clerking,
    /// Callers have left, and the clerk has not done yet what follows from that.
    pub(super) left: Option<Unsent>,
    /// A tenure that its holder gave up for those who wait here, once others were looked after.
    pub(super) returned: Option<Box<Tenure>>,
}

/// What the clerk of the queue does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clerking {
    #[default]
    Absent,
    /// It looks at everything before it rests.
    Busy,
    /// It wakes up by itself then, if nothing happens before.
    Resting { until: Moment, why: Rest },
}

impl Clerking {
    /// Does it stand in line, or pause between two questions?
    pub(super) fn is_waiting(self) -> bool {
        matches!(self, Self::Resting { why: Rest::Waits, .. })
    }
}

/// Why a clerk rests. It says which news a newcomer can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nobody waits.
    Idle,
    /// The lock is taken in this process. A newcomer can rely on its end only as long as that is
    /// so.
    TakenHere,
    /// It stands in line, or asks again after a pause.
    Waits,
}

/// What a caller asks by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) id: u64,
    /// When it was asked.
    pub(super) at: Moment,
}

/// So long others wait for the answer to the question of a caller. It may come to a task that is
/// not polled.
pub(super) const QUESTION: Duration = Duration::from_millis(10);

/// So many grants in a row that nobody else was in the way of make a lock one's own again.
pub(super) const GRANTS_TO_FORGET: u32 = 16;

impl State {
    /// Did somebody elsewhere want the lock lately? Then the way to it is by the line, at once.
    pub(super) fn is_contended(&self) -> bool {
        self.contended > 0
    }

    /// Somebody elsewhere was in the way. Returns whether this is news.
    pub(super) fn contend(&mut self) -> bool {
        std::mem::replace(&mut self.contended, GRANTS_TO_FORGET) == 0
    }

    /// Nobody was.
    pub(super) fn calm(&mut self) {
        self.contended = self.contended.saturating_sub(1);
    }

    /// Does somebody in this process hold the lock, as far as it knows?
    pub(super) fn is_held_here(&self) -> bool {
        self.holder.as_ref().is_some_and(|hold| !hold.is_over())
    }

    /// Is there something that newcomers have to wait for, without asking anybody?
    pub(super) fn is_taken_here(&self, now: Moment) -> bool {
        self.ends_with_news() || self.question_ends(now).is_some()
    }

    /// Does this process have the lock in a way whose end will wake the clerk for those who wait?
    pub(super) fn ends_with_news(&self) -> bool {
        let is_moving = self.promised > 0 || self.returned.is_some() || self.releases > 0;
        is_moving || self.is_held_here()
    }

    /// Until when the question of a caller counts, if there is one that does.
    pub(super) fn question_ends(&self, now: Moment) -> Option<Moment> {
        self.question.map(|question| question.at.plus(QUESTION)).filter(|ends| now < *ends)
    }

    /// Does a clerk that rests have to look at a newcomer that waits until `end`?
    pub(super) fn needs_clerk(&self, end: Moment) -> bool {
        match self.clerk {
            Clerking::Absent | Clerking::Busy => true,
            Clerking::Resting { until, why } => {
                end < until
                    || match why {
                        Rest::Idle => true,
                        Rest::TakenHere => !self.ends_with_news(),
                        Rest::Waits => false,
                    }
            }
        }
    }

    /// Since when it is, as far as that is known.
    pub(super) fn taken_since(&self, now: Moment) -> Moment {
        let holder = self.holder.as_ref().filter(|hold| !hold.is_over());
        holder.map_or(now, |hold| hold.granted())
    }

    /// The first one who still waits.
    pub(super) fn first(&mut self) -> Option<&Waiter> {
        while self.waiters.front()?.is_gone() {
            self.waiters.pop_front();
        }
        self.waiters.front()
    }

    /// Takes the first one out, who is to hold the lock.
    pub(super) fn promise(&mut self) -> Option<Waiter> {
        let waiter = self.waiters.pop_front();
        self.promised += u32::from(waiter.is_some());
        waiter
    }
}
