//! Releases that were sent behind commands without an answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;

use super::commands::Release;
use super::connection::{Loan, Source};
use super::node::RedisNode;
use crate::backend::Claim;
use crate::owner::Owner;

/// The owners whose lock such a release may still take away. None of them may acquire again before
/// it has landed: it would lose what it was just granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingUndos {
    shared: Arc<PendingOwners>,
}

#[derive(Debug, Default)]
struct PendingOwners {
    owners: Mutex<HashSet<Owner>>,
    /// How many there are: mostly none, which every command can see without the mutex.
    count: AtomicUsize,
}

impl PendingUndos {
    fn sent(&self, owner: &Owner) {
        self.change(|owners| owners.insert(owner.clone()));
    }

    /// It was answered, or its owner lets go itself and never comes back.
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

impl<S: Source> RedisNode<S> {
    /// Frees what an unanswered acquire may still take.
    pub(crate) fn release_behind(&self, loan: Loan<S::Connection>, claim: &Claim) {
        self.undo_behind(loan, claim, |claim| Release::of(claim));
    }

    /// Takes back the place in line that an unanswered command may still take.
    pub(crate) fn leave_behind(&self, loan: Loan<S::Connection>, claim: &Claim) {
        self.core.registry.gave_up(claim);
        self.undo_behind(loan, claim, |claim| Release::leaving(claim));
    }

    /// On the same connection, because only there the order of the two commands is certain. It
    /// stays open until the server has read both, or the lease would be over.
    fn undo_behind(
        &self,
        mut loan: Loan<S::Connection>,
        claim: &Claim,
        undo: for<'a> fn(&'a Claim) -> Release<'a>,
    ) {
        // Without a runtime, as in the end of one, the connection ends as well.
        let Some(home) = self.home.clone().or_else(|| Handle::try_current().ok()) else { return };
        let (behind, claim) = (self.core.behind.clone(), claim.clone());
        behind.sent(&claim.owner);
        home.spawn(async move {
            let undo = undo(&claim);
            // What it found does not matter here: the engine asks once more, on a fresh connection.
            if let Ok(true) = tokio::time::timeout(claim.expire, undo.on::<S>(&mut loan)).await {
                loan.heard();
                behind.over(&claim.owner);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_waits_for_its_own_clean_up_to_land() {
        let behind = PendingUndos::default();
        let (owner, other) = (Owner::fresh("test"), Owner::fresh("test"));
        assert!(!behind.is_pending(&owner));
        behind.sent(&owner);
        assert!(behind.is_pending(&owner));
        assert!(!behind.is_pending(&other));
        behind.clone().over(&owner);
        assert!(!behind.is_pending(&owner));
    }
}
