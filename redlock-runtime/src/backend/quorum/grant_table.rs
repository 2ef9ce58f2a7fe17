//! On which nodes an owner certainly holds its lock.
//!
//! An unanswered acquire is followed by a clean-up that may arrive at any later time: the node may
//! show the lock in one moment and have lost it in the next. Such a node must not count.

use std::collections::{HashMap, HashSet};

use crate::backend::{Acquired, Fault};
use crate::clock::Moment;
use crate::mutex::Mutex;
use crate::owner::Owner;

/// The owners that hold a lock on this quorum, or try to.
#[derive(Debug)]
pub(crate) struct GrantTable {
    nodes: usize,
    known: Mutex<HashMap<Owner, KnownOwner>>,
}

/// What is known about one owner.
#[derive(Debug)]
struct KnownOwner {
    /// One grant for each node.
    grants: Vec<NodeGrant>,
    /// The nodes on which an acquire may still arrive: the first try of one that was answered when
    /// it was repeated, or one without an answer.
    late: HashSet<usize>,
}

/// What one node has answered to the acquire of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeGrant {
    /// The node does not have the lock, or, without an answer, may have it for a moment.
    Doubtful,
    /// An acquire was sent and not answered yet.
    Asked,
    /// The node granted an acquire that was sent at this moment.
    Confirmed(Moment),
}

impl GrantTable {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, known: Mutex::default() }
    }

    pub(crate) fn begin(&self, owner: &Owner) {
        let known =
            KnownOwner { grants: vec![NodeGrant::Doubtful; self.nodes], late: HashSet::new() };
        self.known.lock().insert(owner.clone(), known);
    }

    /// The owner releases, or got no lock: no node may get an acquire for it any more. Returns the
    /// nodes where a late acquire may still take the lock.
    pub(crate) fn end(&self, owner: &Owner) -> HashSet<usize> {
        self.known.lock().remove(owner).map(|known| known.late).unwrap_or_default()
    }

    /// An acquire is about to be sent. `false`: it must not be sent, because the owner has
    /// released, or because an earlier acquire is still in flight.
    pub(crate) fn ask(&self, owner: &Owner, node: usize) -> bool {
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(owner) else { return false };
        std::mem::replace(&mut known.grants[node], NodeGrant::Asked) != NodeGrant::Asked
    }

    /// The answer to an acquire that was sent at `sent`. `false`: the owner has released meanwhile.
    pub(crate) fn answered(
        &self,
        owner: &Owner,
        node: usize,
        sent: Moment,
        answer: &Result<Acquired, Fault>,
    ) -> bool {
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(owner) else { return false };
        known.late.extend(may_land_late(answer).then_some(node));
        known.grants[node] = match answer {
            Ok(Acquired::Granted { .. }) => NodeGrant::Confirmed(sent),
            Ok(Acquired::Refused { .. }) | Err(_) => NodeGrant::Doubtful,
        };
        true
    }

    /// When the node granted the lock, at the earliest; `None`: the node may have the lock for a
    /// moment only.
    pub(crate) fn confirmed(&self, owner: &Owner, node: usize) -> Option<Moment> {
        match self.known.lock().get(owner)?.grants[node] {
            NodeGrant::Confirmed(sent) => Some(sent),
            NodeGrant::Asked | NodeGrant::Doubtful => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.known.lock().len()
    }
}

/// May a try of the acquire with this answer still be in flight? A try that was refused when it was
/// repeated acquires the lock if its holder has released it meanwhile.
pub(crate) fn may_land_late(answer: &Result<Acquired, Fault>) -> bool {
    match answer {
        Ok(Acquired::Granted { was_cut, .. } | Acquired::Refused { was_cut, .. }) => *was_cut,
        Err(fault) => fault.is_unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_not_asked_again_while_an_acquire_is_on_its_way() {
        let (grants, owner) = (GrantTable::new(1), Owner::of_nobody("test"));
        let fault = |is_unknown| Err(Fault { nodes: Vec::new(), is_unknown, is_final: false });
        let granted = || {
            let fencing_token = crate::fencing::FencingToken::new(7).unwrap();
            let fencing_tokens = crate::backend::FencingTokens::one(fencing_token);
            Ok(Acquired::Granted { fencing_tokens, was_cut: true })
        };
        assert!(!grants.ask(&owner, 0), "before its begin");
        grants.begin(&owner);
        assert!(grants.ask(&owner, 0));
        assert!(!grants.ask(&owner, 0), "no answer yet");
        // Without an answer the grant is in doubt, and an acquire may be sent: the node knows its
        // clean-ups.
        for is_unknown in [true, false] {
            grants.answered(&owner, 0, Moment::ZERO, &fault(is_unknown));
            assert_eq!(grants.confirmed(&owner, 0), None);
            assert!(grants.ask(&owner, 0));
        }
        let sent = Moment::from_nanos(5);
        grants.answered(&owner, 0, sent, &granted());
        assert_eq!(grants.confirmed(&owner, 0), Some(sent));
        assert_eq!(grants.end(&owner), HashSet::from([0]), "the first try may still land");
        assert!(!grants.answered(&owner, 0, sent, &granted()));
        assert_eq!(grants.confirmed(&owner, 0), None);
        assert!(!grants.ask(&owner, 0), "after its end");
    }

    #[test]
    fn what_may_land_late_is_looked_for_when_its_owner_lets_go() {
        let fault = |is_unknown| Err(Fault { nodes: Vec::new(), is_unknown, is_final: false });
        let refused = |was_cut| {
            Ok(Acquired::Refused { holder: String::new(), free_in: None, was_cut, is_split: false })
        };
        let answers = [refused(true), refused(false), fault(true), fault(false)];
        let (grants, owner) = (GrantTable::new(answers.len()), Owner::of_nobody("test"));
        grants.begin(&owner);
        for (node, answer) in answers.iter().enumerate() {
            assert!(
                grants.ask(&owner, node) && grants.answered(&owner, node, Moment::ZERO, answer)
            );
        }
        assert_eq!(grants.end(&owner), HashSet::from([0, 2]));
    }
}
