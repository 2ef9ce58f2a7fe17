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
    gates: HashMap<usize, InFlightLimit>,
}

/// Lets at most [`IN_FLIGHT`] batches through at a time.
#[derive(Debug, Clone)]
pub(crate) struct InFlightLimit(Arc<Semaphore>);

impl InFlightLimits {
    /// The limit of this backend. A batch that holds it keeps the backend alive, so the address of
    /// the backend identifies it.
    pub(crate) fn of(&mut self, backend: &Arc<dyn LockBackend>) -> InFlightLimit {
        let address = Arc::as_ptr(backend).cast::<()>().addr();
        let gate = || InFlightLimit(Arc::new(Semaphore::new(IN_FLIGHT)));
        self.gates.entry(address).or_insert_with(gate).clone()
    }

    /// Forgets the limits that no batch uses any more.
    pub(crate) fn tidy(&mut self) {
        self.gates.retain(|_, InFlightLimit(gate)| Arc::strong_count(gate) > 1);
    }
}

impl InFlightLimit {
    /// Waits for its turn, though never for longer than `patience`: a server that does not answer
    /// must not make leases wait beyond their window. The turn ends when the returned permit is
    /// dropped.
    pub(crate) async fn pass(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.0).acquire_owned();
        tokio::time::timeout(patience, turn).await.ok().and_then(Result::ok)
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
        let mut gates = InFlightLimits::default();
        let (silent, other) = (backend(), backend());
        let gate = gates.of(&silent);
        let mut turns = Vec::new();
        for _ in 0..IN_FLIGHT {
            turns.push(gate.pass(PATIENCE).await.unwrap());
        }
        // The batches of another backend do not wait at all.
        assert!(gates.of(&other).pass(Duration::ZERO).await.is_some());
        let start = tokio::time::Instant::now();
        assert!(gates.of(&silent).pass(PATIENCE).await.is_none());
        assert!((PATIENCE..2 * PATIENCE).contains(&start.elapsed()));
        turns.pop();
        assert!(gates.of(&silent).pass(Duration::ZERO).await.is_some());
    }

    #[tokio::test]
    async fn only_gates_in_use_are_kept() {
        let mut gates = InFlightLimits::default();
        let backend = backend();
        let turn = gates.of(&backend).pass(PATIENCE).await;
        gates.tidy();
        assert_eq!(gates.gates.len(), 1);
        drop(turn);
        gates.tidy();
        assert_eq!(gates.gates.len(), 0);
    }
}
