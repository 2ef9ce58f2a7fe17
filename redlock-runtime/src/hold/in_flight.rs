//! How many renewal batches of one backend are in flight at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::LockBackend;

/// Enough for a server that is far away; few enough that other commands get through when very many
/// leases are due at once.
const IN_FLIGHT: usize = 16;

/// The limit of each backend that has batches in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlightLimits {
    backends: HashMap<usize, InFlightLimit>,
}

/// Lets at most [`IN_FLIGHT`] batches through at a time.
#[derive(Debug, Clone)]
pub(crate) struct InFlightLimit(Arc<Semaphore>);

impl InFlightLimits {
    /// The limit of this backend. A batch that holds it keeps the backend alive, so the address of
    /// the backend identifies it.
    pub(crate) fn of(&mut self, backend: &Arc<dyn LockBackend>) -> InFlightLimit {
        let address = Arc::as_ptr(backend).cast::<()>().addr();
        let limit = || InFlightLimit(Arc::new(Semaphore::new(IN_FLIGHT)));
        self.backends.entry(address).or_insert_with(limit).clone()
    }

    /// Forgets the limits that no batch uses.
    pub(crate) fn tidy(&mut self) {
        self.backends.retain(|_, InFlightLimit(permits)| Arc::strong_count(permits) > 1);
    }
}

impl InFlightLimit {
    /// Waits for a permit, though never for longer than `patience`: a server that does not answer
    /// must not make leases wait beyond their window. Dropping the permit lets the next batch
    /// through.
    pub(crate) async fn pass(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.0).acquire_owned();
        tokio::time::timeout(patience, permit).await.ok().and_then(Result::ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Memory, MemoryStore};

    const PATIENCE: Duration = Duration::from_secs(1);

    fn backend() -> Arc<dyn LockBackend> {
        Arc::new(Memory::new(MemoryStore::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_longer_than_its_patience() {
        let mut limits = InFlightLimits::default();
        let (silent, other) = (backend(), backend());
        let limit = limits.of(&silent);
        let mut turns = Vec::new();
        for _ in 0..IN_FLIGHT {
            turns.push(limit.pass(PATIENCE).await.unwrap());
        }
        // The batches of another backend do not wait at all.
        assert!(limits.of(&other).pass(Duration::ZERO).await.is_some());
        let start = tokio::time::Instant::now();
        assert!(limits.of(&silent).pass(PATIENCE).await.is_none());
        assert!((PATIENCE..2 * PATIENCE).contains(&start.elapsed()));
        turns.pop();
        assert!(limits.of(&silent).pass(Duration::ZERO).await.is_some());
    }

    #[tokio::test]
    async fn only_limits_in_use_are_kept() {
        let mut limits = InFlightLimits::default();
        let backend = backend();
        let turn = limits.of(&backend).pass(PATIENCE).await;
        limits.tidy();
        assert_eq!(limits.backends.len(), 1);
        drop(turn);
        limits.tidy();
        assert_eq!(limits.backends.len(), 0);
    }
}
