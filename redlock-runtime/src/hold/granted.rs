//! A lock that was granted to a caller of this process.

use std::sync::Arc;

use super::record::Hold;
use super::scheduler::Scheduler;
use super::tenure::Tenure;

/// The lock on its way to its caller. It has no drop guard: whoever has it delivers it, or takes it
/// back.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) hold: Arc<Hold>,
    /// Renews the lease.
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) tenure: Tenure,
}

impl Granted {
    /// Ends the hold, and its renewals. `false`: it had ended before.
    pub(crate) fn end(&self) -> bool {
        let is_held = self.hold.end();
        self.scheduler.forget(&self.hold);
        is_held
    }
}
