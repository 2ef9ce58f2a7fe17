//! Releases that were sent behind acquires without an answer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::owner::Owner;

/// The owners whose lock such a release may still take away. None of them may acquire again before
/// it has landed: it would lose what it was just granted.
#[derive(Debug, Clone, Default)]
pub(super) struct Behind {
    owners: Arc<Mutex<HashSet<Owner>>>,
}

impl Behind {
    pub(super) fn sent(&self, owner: &Owner) {
        self.owners().insert(owner.clone());
    }

    /// It was answered, or its owner lets go itself and never comes back.
    pub(super) fn over(&self, owner: &Owner) {
        self.owners().remove(owner);
    }

    pub(super) fn is_pending(&self, owner: &Owner) -> bool {
        self.owners().contains(owner)
    }

    fn owners(&self) -> MutexGuard<'_, HashSet<Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_waits_for_its_own_clean_up_to_land() {
        let behind = Behind::default();
        let (owner, other) = (Owner::fresh("test"), Owner::fresh("test"));
        assert!(!behind.is_pending(&owner));
        behind.sent(&owner);
        assert!(behind.is_pending(&owner));
        assert!(!behind.is_pending(&other));
        behind.clone().over(&owner);
        assert!(!behind.is_pending(&owner));
    }
}
