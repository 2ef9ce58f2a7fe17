//! What the nodes of one group have to know of each other: two of their addresses may lead to one
//! server, which has one vote.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::health::ServerIdentity;
use super::pending_undo::{PendingUndos, RunId};
use crate::mutex::Mutex;
use crate::owner::Owner;

/// The nodes of one group. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Siblings {
    shared: Arc<Group>,
}

#[derive(Debug, Default)]
struct Group {
    nodes: Mutex<Vec<Sibling>>,
    /// The number of nodes: usually 1, which every command can see without the mutex.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Sibling {
    identity: Arc<ServerIdentity>,
    undos: PendingUndos,
}

impl Siblings {
    pub(super) fn join(&self, identity: &Arc<ServerIdentity>, undos: &PendingUndos) {
        let (identity, undos) = (Arc::clone(identity), undos.clone());
        self.shared.nodes.lock().push(Sibling { identity, undos });
        self.shared.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Does another node than this one lead to the process `run_id`?
    pub(super) fn lead_to(&self, run_id: &str, except: &Arc<ServerIdentity>) -> bool {
        self.any_other(except, |other| other.identity.answering().as_deref() == Some(run_id))
    }

    /// Is a release that undoes a command of `owner` on its way by another node than this one, to
    /// the process that answers `now`?
    pub(super) fn have_undo(
        &self,
        owner: &Owner,
        now: impl FnOnce() -> RunId,
        except: &Arc<ServerIdentity>,
    ) -> bool {
        let Some(run_id) = self.are_several().then(now).flatten() else { return false };
        self.any_other(except, |other| other.undos.is_sent_to(owner, &run_id))
    }

    fn are_several(&self) -> bool {
        self.shared.count.load(Ordering::Relaxed) > 1
    }

    fn any_other(&self, except: &Arc<ServerIdentity>, is: impl Fn(&Sibling) -> bool) -> bool {
        let nodes = self.shared.nodes.lock();
        nodes.iter().any(|other| !Arc::ptr_eq(&other.identity, except) && is(other))
    }
}
