//! What the scheduler is asked for beside the registration of leases.

use std::sync::Arc;

use super::Scheduler;
use crate::clock::Moment;
use crate::hold::record::Hold;

impl Scheduler {
    /// Checks a lease as soon as possible.
    pub(crate) fn look_at(&self, hold: &Hold) {
        let mut state = self.state.lock();
        state.schedule.reschedule(hold, Moment::ZERO);
        state.wakes_at = Moment::ZERO;
        drop(state);
        self.wake.notify_one();
    }

    /// Checks all leases as soon as possible.
    pub(super) fn look_at_all(&self) {
        let mut state = self.state.lock();
        let holds: Vec<_> = state.schedule.entries().cloned().collect();
        for hold in &holds {
            state.schedule.reschedule(hold, Moment::ZERO);
        }
        drop(state);
        // Dropped outside of the mutex: these may be the last references.
        drop(holds);
    }

    /// No lease will be registered any more.
    pub(crate) fn retire(&self) {
        self.state.lock().is_retired = true;
        self.wake.notify_one();
    }

    /// The leases of one client.
    pub(crate) fn of_client(&self, client: u64) -> Vec<Arc<Hold>> {
        let state = self.state.lock();
        state.schedule.entries().filter(|hold| hold.client.id == client).cloned().collect()
    }

    #[cfg(test)]
    pub(crate) fn kill_driver(&self) {
        self.dies.store(true, std::sync::atomic::Ordering::Relaxed);
        self.wake.notify_one();
    }
}
