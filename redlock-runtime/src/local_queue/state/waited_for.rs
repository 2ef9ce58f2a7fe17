//! What the state of a queue says where callers wait: to their poller, and to who passes the lock
//! on to them.

use super::QueueState;
use crate::clock::Moment;
use crate::local_queue::poller_state::{PollerState, RestReason};
use crate::local_queue::waiter::Waiter;

impl QueueState {
    /// Does a resting poller have to wake up for a newcomer that waits until `end`?
    pub(crate) fn needs_poller(&self, end: Moment) -> bool {
        match self.poller {
            PollerState::Absent | PollerState::Busy => true,
            PollerState::Resting { until, why } => {
                end < until
                    || match why {
                        RestReason::Idle => true,
                        RestReason::TakenHere | RestReason::TakenHereInQueue => {
                            !self.ends_with_news()
                        }
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

    /// The first waiter that has not gone. Those before it are removed.
    pub(crate) fn first(&mut self) -> Option<&Waiter> {
        while self.waiters.front()?.is_gone() {
            self.waiters.pop_front();
        }
        self.waiters.front()
    }

    /// Removes the first waiter that has not gone.
    pub(crate) fn pop_first(&mut self) -> Option<Waiter> {
        self.first()?;
        self.waiters.pop_front()
    }

    /// Removes the first waiter, which is about to hold the lock. It is the one whose terms the
    /// caller has looked at, even if it has gone since: the next one may have others.
    pub(crate) fn promise(&mut self) -> Option<Waiter> {
        let waiter = self.waiters.pop_front();
        self.is_promised |= waiter.is_some();
        waiter
    }
}
