//! The releases that were sent after unanswered commands, to undo what these may still do.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mutex::Mutex;
use crate::owner::Owner;

/// The process of a server; `None`: not known.
pub(crate) type RunId = Option<Arc<str>>;

/// The owners whose lock such a release may still take away. None of them may acquire again before
/// the release has arrived: the owner would lose the lock that it was just granted. A release can
/// no longer arrive once another process answers at the address of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingUndos {
    shared: Arc<PendingOwners>,
}

#[derive(Debug, Default)]
struct PendingOwners {
    owners: Mutex<HashMap<Owner, Vec<PendingUndo>>>,
    /// The number of owners: usually 0, which every command can see without the mutex.
    count: AtomicUsize,
}

/// One of the releases of an owner: there are several where its node has met several processes.
#[derive(Debug)]
struct PendingUndo {
    id: u64,
    /// The process to which the release was sent.
    to: RunId,
    /// Ends the wait for its answer.
    _settled: DropGuard,
}

/// A release that was sent.
pub(crate) struct SentUndo {
    undos: PendingUndos,
    owner: Owner,
    id: u64,
    /// Cancelled when it no longer matters whether the release arrives.
    pub(crate) settled: CancellationToken,
}

impl SentUndo {
    /// Forgets this release, which was answered. Other releases of its owner may still be on their
    /// way.
    pub(crate) fn answered(self) {
        let undo = self.undos.change(|owners| {
            let undos = owners.get_mut(&self.owner)?;
            let at = undos.iter().position(|undo| undo.id == self.id)?;
            let undo = undos.swap_remove(at);
            if undos.is_empty() {
                owners.remove(&self.owner);
            }
            Some(undo)
        });
        drop(undo);
    }
}

impl PendingUndos {
    /// Notes a release of `owner` that is sent to the process `to`.
    pub(crate) fn sent(&self, owner: &Owner, to: RunId) -> SentUndo {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let settled = CancellationToken::new();
        let undo = PendingUndo { id, to, _settled: settled.clone().drop_guard() };
        self.change(|owners| owners.entry(owner.clone()).or_default().push(undo));
        SentUndo { undos: self.clone(), owner: owner.clone(), id, settled }
    }

    /// Forgets all releases of an owner that releases its lock, and is never used again.
    pub(crate) fn forget(&self, owner: &Owner) {
        if !self.is_empty() {
            let undos = self.change(|owners| owners.remove(owner));
            drop(undos);
        }
    }

    /// May a release still take a lock away from `owner`? `now` returns the process that answers at
    /// the server's address.
    pub(crate) fn is_pending(&self, owner: &Owner, now: impl FnOnce() -> RunId) -> bool {
        !self.is_empty()
            && self.change(|owners| {
                let Some(undos) = owners.get(owner) else { return false };
                let now = now();
                undos.iter().any(|undo| undo.to.is_none() || now.is_none() || now == undo.to)
            })
    }

    /// Was a release of `owner` sent to the process `run_id`, and is it not settled yet?
    pub(super) fn is_sent_to(&self, owner: &Owner, run_id: &str) -> bool {
        let is_there = |undo: &PendingUndo| undo.to.as_deref() == Some(run_id);
        !self.is_empty()
            && self
                .change(|owners| owners.get(owner).is_some_and(|undos| undos.iter().any(is_there)))
    }

    fn is_empty(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) == 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Owner, Vec<PendingUndo>>) -> T) -> T {
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
        let SentUndo { settled, .. } = undos.sent(&owner, None);
        assert!(undos.is_pending(&owner, || Some("run 1".into())));
        assert!(!undos.is_pending(&other, || None) && !settled.is_cancelled());
        undos.clone().forget(&owner);
        assert!(settled.is_cancelled());
        assert!(!undos.is_pending(&owner, || None));
    }

    /// The answer to one says nothing of another one that was sent to another process.
    #[test]
    fn an_answer_is_that_to_one_of_them() {
        let (undos, owner) = (PendingUndos::default(), Owner::of_nobody("test"));
        let is_pending = |now: &str| undos.is_pending(&owner, || Some(now.into()));
        let first = undos.sent(&owner, Some("run 1".into()));
        let second = undos.sent(&owner, Some("run 2".into()));
        assert!(is_pending("run 1") && is_pending("run 2") && !is_pending("run 3"));
        let settled = second.settled.clone();
        first.answered();
        assert!(!is_pending("run 1") && is_pending("run 2") && !settled.is_cancelled());
        second.answered();
        assert!(!is_pending("run 2") && settled.is_cancelled());
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
