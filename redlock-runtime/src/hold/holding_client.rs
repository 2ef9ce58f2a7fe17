//! What the holds of one client have in common.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::LockBackend;
use crate::clock::Clock;
use crate::error::LockError;
use crate::pending::PendingCommands;
use crate::process::{self, ProcessId};
use crate::report::Reports;

/// The client of a hold: the part of its engine that holds need, so that they do not keep the
/// engine.
#[derive(Debug)]
pub(crate) struct HoldingClient {
    /// Unique in this process.
    pub(crate) id: u64,
    /// The process that made it, and holds its locks. A child that it forks has a copy of this
    /// record, not the locks, and cannot use it.
    pub(crate) process: ProcessId,
    pub(crate) backend: Arc<dyn LockBackend>,
    pub(crate) reply_timeout: Duration,
    /// The log lines for operators that may come in large numbers.
    pub(crate) reports: Arc<Reports>,
    pub(crate) pending: PendingCommands,
    pub(crate) clock: Clock,
}

impl HoldingClient {
    /// Fails in a process that was forked from the one that made the client: neither its holds nor
    /// its engine work there.
    pub(crate) fn check_process(&self) -> Result<(), LockError> {
        if self.process == process::id() { Ok(()) } else { Err(LockError::ForkedProcess) }
    }
}
