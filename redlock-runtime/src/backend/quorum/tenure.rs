//! Where the lock of an owner certainly stands.
//!
//! Behind an acquire without an answer goes a clean-up that may land at any time later: the node
//! may show the lock in one moment and have lost it in the next. Such a node must not count.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::{Acquired, Fault};
use crate::owner::Owner;

/// The owners that hold a lock on this quorum, or try to.
#[derive(Debug)]
pub(super) struct Tenures {
    nodes: usize,
    known: Mutex<HashMap<Owner, Vec<Grant>>>,
}

/// What one node has said to the acquire of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// It does not have the lock, as far as anybody knows.
    Absent,
    /// It was asked, and has not answered, or never will.
    Open,
    Confirmed,
}

impl Tenures {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes, known: Mutex::default() }
    }

    pub(super) fn begin(&self, owner: &Owner) {
        self.known().insert(owner.clone(), vec![Grant::Absent; self.nodes]);
    }

    /// The owner lets go, or got nothing: no node may be asked for it any more.
    pub(super) fn end(&self, owner: &Owner) {
        self.known().remove(owner);
    }

    /// An acquire is about to be sent. `false`: it must not, because the owner has let go, or
    /// because an earlier one is still open.
    pub(super) fn ask(&self, owner: &Owner, node: usize) -> bool {
        let mut known = self.known();
        let Some(grants) = known.get_mut(owner) else { return false };
        std::mem::replace(&mut grants[node], Grant::Open) != Grant::Open
    }

    pub(super) fn answered(&self, owner: &Owner, node: usize, answer: &Result<Acquired, Fault>) {
        if let Some(grants) = self.known().get_mut(owner) {
            grants[node] = match answer {
                Ok(Acquired::Granted { .. }) => Grant::Confirmed,
                Err(fault) if fault.is_unknown => Grant::Open,
                Ok(Acquired::Refused { .. }) | Err(_) => Grant::Absent,
            };
        }
    }

    /// Does what this node says of the lock hold for longer than a moment?
    pub(super) fn is_confirmed(&self, owner: &Owner, node: usize) -> bool {
        self.known().get(owner).is_some_and(|grants| grants[node] == Grant::Confirmed)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Owner, Vec<Grant>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
