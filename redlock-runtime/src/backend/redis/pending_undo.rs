//! The releases that were sent after unanswered commands, to undo what these may still do.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::owner::Owner;

/// The owners whose lock such a release may still take away. None of them may acquire again before
/// the release has arrived: it would lose what it was just granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingUndos {
    shared: Arc<PendingOwners>,
}

#[derive(Debug, Default)]
struct PendingOwners {
    owners: Mutex<HashSet<Owner>>,
    /// The number of owners: mostly none, which every command can see without the mutex.
    count: AtomicUsize,
}

impl PendingUndos {
    pub(crate) fn sent(&self, owner: &Owner) {
        self.change(|owners| owners.insert(owner.clone()));
    }

    /// The undo was answered, or its owner releases and is never used again.
    pub(crate) fn over(&self, owner: &Owner) {
        if !self.is_empty() {
            self.change(|owners| owners.remove(owner));
        }
    }

    pub(crate) fn is_pending(&self, owner: &Owner) -> bool {
        !self.is_empty() && self.change(|owners| owners.contains(owner))
    }

    fn is_empty(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashSet<Owner>) -> T) -> T {
        let mut owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut owners);
        self.shared.count.store(owners.len(), Ordering::Release);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_waits_for_its_own_undo_to_land() {
        let undos = PendingUndos::default();
        let (owner, other) = (Owner::of_nobody("test"), Owner::of_nobody("test"));
        assert!(!undos.is_pending(&owner));
        undos.sent(&owner);
        assert!(undos.is_pending(&owner));
        assert!(!undos.is_pending(&other));
        undos.clone().over(&owner);
        assert!(!undos.is_pending(&owner));
    }
}
