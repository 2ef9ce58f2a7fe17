//! Makes schedulers: the one of this process, and those on the clocks of callers.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{Scheduler, SchedulerState};
use crate::clock::{Clock, Moment};
use crate::executor::Executor;
use crate::hold::schedule::Schedule;
use crate::mutex::Mutex;
use crate::process::{self, PerProcess};

impl Scheduler {
    pub(crate) fn new(executor: Executor, clock: Clock) -> Arc<Self> {
        let state = SchedulerState {
            schedule: Schedule::new(),
            is_driven: false,
            wakes_at: Moment::NEVER,
            is_retired: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            executor,
            clock,
            #[cfg(test)]
            dies: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// The scheduler of this process, on the background thread.
    pub(crate) fn of_process() -> Arc<Self> {
        static PROCESS: PerProcess<Arc<Scheduler>> = PerProcess::new();
        let new = || Self::new(Executor::BackgroundThread, Clock::Boot);
        // After too many forks: one for this client.
        PROCESS.of(process::id(), new).map_or_else(|_| new(), Arc::clone)
    }
}
