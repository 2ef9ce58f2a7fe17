//! What the holds of one client have in common.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::backend::LockBackend;
use crate::clock::Clock;
use crate::error::LockError;
use crate::pending::PendingCommands;
use crate::process::{self, ProcessId};
use crate::report::Reports;

/// How many batches of renewals a client sends at the same time. Enough for a server that is far
/// away; few enough that other commands get through when very many leases are due at once.
pub(crate) const RENEWALS_IN_FLIGHT: usize = 16;

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
    /// One permit for each batch of renewals that may be in flight.
    pub(crate) renewals: Semaphore,
}

impl HoldingClient {
    /// Fails in a process that was forked from the one that made the client: neither its holds nor
    /// its engine work there.
    pub(crate) fn check_process(&self) -> Result<(), LockError> {
        if self.process == process::id() { Ok(()) } else { Err(LockError::ForkedProcess) }
    }

    /// Waits until a batch of renewals may leave, though never for longer than `patience`: a server
    /// that does not answer must not make leases wait beyond their window. Dropping the permit lets
    /// the next batch through.
    pub(crate) async fn may_renew(&self, patience: Duration) -> Option<SemaphorePermit<'_>> {
        tokio::time::timeout(patience, self.renewals.acquire()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake::fake;

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_longer_than_its_patience() {
        const PATIENCE: Duration = Duration::from_secs(1);
        let (redlock, _fake) = fake();
        let client = &redlock.engine().holding;
        let mut permits = Vec::new();
        for _ in 0..RENEWALS_IN_FLIGHT {
            permits.push(client.may_renew(PATIENCE).await.unwrap());
        }
        let start = tokio::time::Instant::now();
        assert!(client.may_renew(PATIENCE).await.is_none());
        assert!((PATIENCE..2 * PATIENCE).contains(&start.elapsed()));
        permits.pop();
        assert!(client.may_renew(Duration::ZERO).await.is_some());
    }
}
