//! Owners that are never used again, though a server may still hand a lock to them.

use std::collections::{HashMap, VecDeque};

use crate::backend::Claim;
use crate::owner::Owner;

/// The last owners of one sort, each with its claim. Every signal is looked up here, which
/// therefore must not search through all owners.
#[derive(Debug)]
pub(crate) struct FormerOwners {
    most: usize,
    claims: HashMap<Owner, Claim>,
    /// The owners in the order in which they came. One that was taken out is still in it.
    order: VecDeque<Owner>,
}

impl FormerOwners {
    /// `most`: how many are remembered.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, claims: HashMap::new(), order: VecDeque::new() }
    }

    /// Remembers the owner of a claim. One that is remembered already keeps its place in the order:
    /// a release that fails is repeated.
    pub(crate) fn add(&mut self, claim: &Claim) {
        if self.claims.contains_key(&claim.owner) {
            return;
        }
        if self.order.len() == self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.claims.remove(&oldest);
        }
        self.order.push_back(claim.owner.clone());
        self.claims.insert(claim.owner.clone(), claim.clone());
    }

    pub(crate) fn get(&self, owner: &str) -> Option<&Claim> {
        self.claims.get(owner)
    }

    /// Forgets an owner, and returns its claim.
    pub(crate) fn take(&mut self, owner: &str) -> Option<Claim> {
        self.claims.remove(owner)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.claims.len().max(self.order.len())
    }
}
