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
