//! A lock that was granted to a caller of this process.

use std::sync::Arc;

use super::record::Hold;
use super::scheduler::Scheduler;
use super::tenure::Tenure;

/// A granted lock before its delivery to the caller. It has no drop guard: the code that has it
/// must deliver it or take it back.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) hold: Arc<Hold>,
    /// Renews the lease.
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) tenure: Tenure,
}
