//! What the nodes of one group have to know of each other: two of their addresses may lead to one
//! server, which has one vote.

use std::sync::Arc;

use super::health::ServerIdentity;
use super::pending_undo::PendingUndos;
use crate::mutex::Mutex;
use crate::owner::Owner;

/// The nodes of one group. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Siblings {
    nodes: Arc<Mutex<Vec<Sibling>>>,
}

#[derive(Debug)]
struct Sibling {
    identity: Arc<ServerIdentity>,
    undos: PendingUndos,
}

impl Siblings {
    pub(super) fn join(&self, identity: &Arc<ServerIdentity>, undos: &PendingUndos) {
        let (identity, undos) = (Arc::clone(identity), undos.clone());
        self.nodes.lock().push(Sibling { identity, undos });
    }

    /// Does another node than this one lead to the process `run_id`?
    pub(super) fn lead_to(&self, run_id: &str, except: &Arc<ServerIdentity>) -> bool {
        self.any_other(except, |other| other.identity.answering().as_deref() == Some(run_id))
    }

    /// Is a release on its way to the process `run_id`, by way of another node than this one, that
    /// undoes a command of `owner`?
    pub(super) fn undo(&self, owner: &Owner, run_id: &str, except: &Arc<ServerIdentity>) -> bool {
        self.any_other(except, |other| other.undos.is_sent_to(owner, run_id))
    }

    fn any_other(&self, except: &Arc<ServerIdentity>, is: impl Fn(&Sibling) -> bool) -> bool {
        let nodes = self.nodes.lock();
        nodes.iter().any(|other| !Arc::ptr_eq(&other.identity, except) && is(other))
    }
}
