//! The releases that were sent after unanswered commands, to undo what these may still do.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mutex::Mutex;
use crate::owner::Owner;

/// The process of a server; `None`: not known.
pub(crate) type RunId = Option<Arc<str>>;

/// The owners whose lock such a release may still take away. None of them may acquire again before
/// the release has arrived: it would lose what it was just granted. When another process answers at
/// the address of the server, it cannot arrive any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingUndos {
    shared: Arc<PendingOwners>,
}

#[derive(Debug, Default)]
struct PendingOwners {
    owners: Mutex<HashMap<Owner, PendingUndo>>,
    /// The number of owners: mostly none, which every command can see without the mutex.
    count: AtomicUsize,
}

#[derive(Debug)]
struct PendingUndo {
    /// The process to which the release was sent.
    to: RunId,
    /// Ends the wait for its answer.
    _over: DropGuard,
}

impl PendingUndos {
    /// The token is cancelled when it does not matter any more whether the release arrives.
    pub(crate) fn sent(&self, owner: &Owner, to: RunId) -> CancellationToken {
        let over = CancellationToken::new();
        let undo = PendingUndo { to, _over: over.clone().drop_guard() };
        let before = self.change(|owners| owners.insert(owner.clone(), undo));
        drop(before);
        over
    }

    /// The undo was answered, or its owner releases and is never used again.
    pub(crate) fn over(&self, owner: &Owner) {
        if !self.is_empty() {
            let undo = self.change(|owners| owners.remove(owner));
            drop(undo);
        }
    }

    /// `now`: the process that answers at the server's address.
    pub(crate) fn is_pending(&self, owner: &Owner, now: impl FnOnce() -> RunId) -> bool {
        !self.is_empty()
            && self.change(|owners| match owners.get(owner) {
                Some(PendingUndo { to, .. }) => {
                    to.is_none() || now().is_none_or(|now| Some(now) == *to)
                }
                None => false,
            })
    }

    fn is_empty(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Owner, PendingUndo>) -> T) -> T {
        let mut owners = self.shared.owners.lock();
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
        assert!(!undos.is_pending(&owner, || None));
        let over = undos.sent(&owner, None);
        assert!(undos.is_pending(&owner, || Some("run 1".into())));
        assert!(!undos.is_pending(&other, || None) && !over.is_cancelled());
        undos.clone().over(&owner);
        assert!(over.is_cancelled());
        assert!(!undos.is_pending(&owner, || None));
    }

    #[test]
    fn what_was_sent_to_a_process_that_is_gone_does_not_land_at_the_next_one() {
        let (undos, owner) = (PendingUndos::default(), Owner::of_nobody("test"));
        undos.sent(&owner, Some("run 1".into()));
        for (now, is_pending) in [(None, true), (Some("run 1"), true), (Some("run 2"), false)] {
            assert_eq!(undos.is_pending(&owner, || now.map(Arc::from)), is_pending, "{now:?}");
        }
    }
}
