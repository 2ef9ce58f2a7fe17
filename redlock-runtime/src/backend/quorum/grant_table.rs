//! On which nodes an owner certainly holds its lock, and by which owner value.
//!
//! An unanswered acquire is followed by a clean-up that may arrive at any later time: the node may
//! show the lock in one moment and have lost it in the next. Such a node must not count. Where the
//! connection of the clean-up has ended, nobody learns whether it arrives: a server that was
//! frozen, or a proxy, may deliver it after hours, so that no wait is long enough. The node is
//! therefore won back under a fresh owner value, which neither that clean-up nor any other command
//! in flight names: a command that arrives late for the former value finds another owner, and
//! changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::backend::{Acquired, Claim, Fault};
use crate::clock::Moment;
use crate::mutex::Mutex;
use crate::owner::Owner;

/// The owners that hold a lock on this quorum, or try to.
pub(crate) struct GrantTable {
    nodes: usize,
    known: Mutex<HashMap<Owner, KnownOwner>>,
    /// The owners with a value of their own on some node whose release no quorum has confirmed yet,
    /// until their leases are over.
    undecided: Mutex<HashMap<Owner, (LeftOnNodes, Instant)>>,
}

/// What is known about one owner.
struct KnownOwner {
    nodes: Vec<KnownNode>,
    /// How many further owner values it has had.
    further_values: u32,
}

/// What is known about one owner on one node.
#[derive(Debug, Clone)]
struct KnownNode {
    grant: NodeGrant,
    /// An acquire may still arrive: it got no answer, or its first try broke off, and only its
    /// repetition was answered.
    may_land_late: bool,
    /// The clean-up of an acquire under the present owner value may still arrive, so that the
    /// node is not asked under this value again.
    is_spoiled: bool,
    /// The owner value that it has on this node alone, instead of the one of the claim.
    own_value: Option<Owner>,
}

/// What one node has answered to the acquire of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeGrant {
    /// The node does not have the lock, or, after an acquire without an answer, may have it until
    /// the clean-up arrives.
    Doubtful,
    /// An acquire was sent and not answered yet.
    Asked,
    /// The node granted an acquire that was sent at this moment.
    Confirmed(Moment),
}

/// What an owner leaves behind on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeftBehind {
    /// The node may have the lock. Otherwise it was never asked for it, or has refused it, or an
    /// earlier release frees it.
    pub(crate) may_be_taken: bool,
    /// A late acquire may still take the lock.
    pub(crate) may_land_late: bool,
    /// The owner value on this node alone, where it is not the one of the claim.
    pub(crate) own_value: Option<Owner>,
    /// The only process of the server that may get this release: another process at this address
    /// may be another node, whose vote has the same owner value. `None`: any process may, as no
    /// vote of this owner counts any more.
    pub(crate) only_at: Option<Arc<str>>,
}

impl LeftBehind {
    /// The claim by the owner value on this node.
    pub(crate) fn claim(&self, claim: &Claim) -> Claim {
        with_owner(claim, self.own_value.as_ref())
    }
}

/// What an owner leaves behind on each node; nothing if it is no longer known.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOnNodes {
    nodes: Vec<LeftBehind>,
}

impl LeftOnNodes {
    pub(crate) fn on(&self, node: usize) -> LeftBehind {
        self.nodes.get(node).cloned().unwrap_or_default()
    }
}

/// The owner values with which a node is asked again for a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WinBack {
    /// The owner value to ask with.
    pub(crate) owner: Owner,
    /// The one before, which is no longer used on this node.
    pub(crate) former: Option<Owner>,
}

impl GrantTable {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, known: Mutex::default(), undecided: Mutex::default() }
    }

    pub(crate) fn begin(&self, owner: &Owner) {
        let node = KnownNode {
            grant: NodeGrant::Doubtful,
            may_land_late: false,
            is_spoiled: false,
            own_value: None,
        };
        let known = KnownOwner { nodes: vec![node; self.nodes], further_values: 0 };
        self.known.lock().insert(owner.clone(), known);
    }

    /// Forgets an owner that releases, or got no lock: no node may get an acquire for it from here
    /// on. Returns what the owner leaves behind.
    pub(crate) fn end(&self, owner: &Owner) -> LeftOnNodes {
        let Some(known) = self.known.lock().remove(owner) else {
            let undecided = self.undecided.lock();
            return undecided.get(owner).map(|(left, _)| left.clone()).unwrap_or_default();
        };
        let left = |node: KnownNode| LeftBehind {
            may_be_taken: node.may_land_late || node.grant != NodeGrant::Doubtful,
            may_land_late: node.may_land_late,
            own_value: node.own_value,
            only_at: None,
        };
        LeftOnNodes { nodes: known.nodes.into_iter().map(left).collect() }
    }

    /// Notes that a release of what was `left` begins. A repetition of the release has to find the
    /// lock under the same owner values. Only these are kept: the first release cleans up acquires
    /// that arrive late.
    pub(crate) fn note_release(&self, claim: &Claim, left: &LeftOnNodes) {
        if left.nodes.iter().all(|node| node.own_value.is_none()) {
            return;
        }
        let value_only = |left: &LeftBehind| LeftBehind {
            own_value: left.own_value.clone(),
            ..LeftBehind::default()
        };
        let values = LeftOnNodes { nodes: left.nodes.iter().map(value_only).collect() };
        let now = Instant::now();
        let mut undecided = self.undecided.lock();
        undecided.retain(|_, (_, until)| *until > now);
        undecided.entry(claim.owner.clone()).or_insert((values, now + claim.expire));
    }

    /// Forgets the values of an owner whose release a quorum has confirmed.
    pub(crate) fn note_released(&self, owner: &Owner) {
        self.undecided.lock().remove(owner);
    }

    /// Notes that the first acquire of the owner is about to be sent to the node.
    pub(crate) fn ask(&self, owner: &Owner, node: usize) {
        if let Some(known) = self.known.lock().get_mut(owner) {
            known.nodes[node].grant = NodeGrant::Asked;
        }
    }

    /// Notes that another acquire is about to be sent to the node, and returns its owner values.
    /// `None`: it must not be sent, because the owner has released, or because an earlier acquire
    /// is still in flight.
    pub(crate) fn ask_again(&self, owner: &Owner, node: usize) -> Option<WinBack> {
        let mut known = self.known.lock();
        let KnownOwner { nodes, further_values } = known.get_mut(owner)?;
        let known = &mut nodes[node];
        if std::mem::replace(&mut known.grant, NodeGrant::Asked) == NodeGrant::Asked {
            return None;
        }
        let present = known.own_value.clone().unwrap_or_else(|| owner.clone());
        if !std::mem::take(&mut known.is_spoiled) {
            return Some(WinBack { owner: present, former: None });
        }
        *further_values += 1;
        let fresh = owner.another(*further_values);
        known.own_value = Some(fresh.clone());
        Some(WinBack { owner: fresh, former: Some(present) })
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
        let known = &mut known.nodes[node];
        known.may_land_late |= may_land_late(answer);
        known.is_spoiled |= answer.as_ref().is_err_and(|fault| fault.is_unknown);
        known.grant = match answer {
            Ok(Acquired::Granted { .. }) => NodeGrant::Confirmed(sent),
            Ok(Acquired::Refused { .. }) | Err(_) => NodeGrant::Doubtful,
        };
        true
    }

    /// When the node granted the lock, at the earliest; `None`: the node may have the lock for a
    /// moment only.
    pub(crate) fn confirmed(&self, owner: &Owner, node: usize) -> Option<Moment> {
        match self.known.lock().get(owner)?.nodes[node].grant {
            NodeGrant::Confirmed(sent) => Some(sent),
            NodeGrant::Asked | NodeGrant::Doubtful => None,
        }
    }

    /// The claim by the owner value on this node.
    pub(crate) fn claim_on(&self, node: usize, claim: &Claim) -> Claim {
        let known = self.known.lock();
        let own = known.get(&claim.owner).and_then(|known| known.nodes[node].own_value.as_ref());
        with_owner(claim, own)
    }

    /// The same for several locks. `None`: the owner values on this node are those of the claims.
    pub(crate) fn claims_on(&self, node: usize, claims: &[Claim]) -> Option<Vec<Claim>> {
        let known = self.known.lock();
        let own = |claim: &Claim| known.get(&claim.owner)?.nodes[node].own_value.as_ref();
        let has_own = claims.iter().any(|claim| own(claim).is_some());
        has_own.then(|| claims.iter().map(|claim| with_owner(claim, own(claim))).collect())
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.known.lock().len()
    }
}

fn with_owner(claim: &Claim, owner: Option<&Owner>) -> Claim {
    let owner = owner.unwrap_or(&claim.owner).clone();
    Claim { owner, ..claim.clone() }
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
mod tests;
