//! The renewal scheduler: sleeps until the next lease is due, renews in batches, and stops leases
//! that are over.

use std::sync::Arc;

use tokio::sync::Notify;

use super::record::Hold;
use super::schedule::Schedule;
use crate::clock::{Clock, Moment};
use crate::error::LockError;
use crate::executor::Executor;
use crate::mutex::Mutex;

mod driver;
mod of_process;
mod renewal;
mod requests;
mod withdrawn;

/// Renews the leases of every client that shares its executor and clock.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<SchedulerState>,
    /// Tells the driver that a lease is due before the end of its sleep.
    wake: Notify,
    executor: Executor,
    clock: Clock,
    /// Makes the driver panic, so that a test sees what follows.
    #[cfg(test)]
    dies: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct SchedulerState {
    schedule: Schedule<Hold>,
    is_driven: bool,
    /// Until when the driver sleeps. A lease that is due earlier must wake it.
    wakes_at: Moment,
    /// No lease will be registered any more.
    is_retired: bool,
}

impl SchedulerState {
    /// A lease is due at `at`: the driver must not sleep longer. Returns whether it has to be woken
    /// for that.
    fn wake_no_later_than(&mut self, at: Moment) -> bool {
        let is_first = at < self.wakes_at;
        self.wakes_at = self.wakes_at.min(at);
        is_first
    }
}

impl Scheduler {
    /// Registers a lease. From here on it is renewed, and stopped in time.
    pub(crate) fn register(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<(), LockError> {
        let at = hold.first_look();
        let mut state = self.state.lock();
        state.schedule.insert(at, Arc::clone(hold));
        let wakes = state.wake_no_later_than(at);
        let is_driven = std::mem::replace(&mut state.is_driven, true);
        drop(state);
        if !is_driven {
            return self.start_driver();
        }
        if wakes {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Ends a hold for its holder at `now`, and its renewals. `false`: the hold had ended before.
    pub(crate) fn end(&self, hold: &Hold, now: Moment) -> bool {
        let is_held = hold.end(now);
        self.forget(hold);
        is_held
    }

    /// Removes a lease that its holder released. Takes effect before it returns: a released lock is
    /// never renewed by a batch that starts later.
    pub(crate) fn forget(&self, hold: &Hold) {
        let forgotten = self.state.lock().schedule.remove(hold);
        // Dropped outside of the mutex: it may be the last reference.
        drop(forgotten);
    }
}
