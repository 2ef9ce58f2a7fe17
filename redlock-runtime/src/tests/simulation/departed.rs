//! What must not stand on any node: the lock of an owner that has let go of it, and knows that.

use std::collections::{HashMap, HashSet};

use super::network::Network;
use super::plan::{Plan, Tick};
use crate::backend::Claim;
use crate::owner::{Owner, hold_of};

/// The clean-up behind what may come late is repeated up to three seconds after the release
/// (`docs/safety.md`). The rest is what a command and its way take.
pub(super) const CLEANED_UP: Tick = 4500;
/// One of the tries to release a lock on a node may fail. Of more, nothing is promised before its
/// lease ends.
const FAILURES: u32 = 1;

/// Owners that have let go, and what came of their releases.
#[derive(Debug, Default)]
pub(super) struct Departed {
    owners: HashSet<Owner>,
    /// By hold: a node may know the owner by another value.
    failures: HashMap<(String, usize), u32>,
}

impl Departed {
    /// Is it news that this owner has let go?
    pub(super) fn is_news(&mut self, owner: &Owner) -> bool {
        self.owners.insert(owner.clone())
    }

    /// A release on this node was not answered.
    pub(super) fn failed(&mut self, owner: &Owner, node: usize) {
        let hold = hold_of(owner.as_str()).to_owned();
        *self.failures.entry((hold, node)).or_default() += 1;
    }

    /// A node on which the lock stands at `now`, though nothing kept its owner from releasing it.
    pub(super) fn left_on(&self, network: &Network, claim: &Claim, now: Tick) -> Option<usize> {
        (0..network.nodes.len()).find(|number| {
            let ends = network.nodes[*number].held_until(&claim.key, &claim.owner);
            let hold = hold_of(claim.owner.as_str()).to_owned();
            let failures = self.failures.get(&(hold, *number)).copied();
            ends.is_some_and(|ends| ends > now * 1000) && failures.unwrap_or(0) <= FAILURES
        })
    }
}

impl Plan {
    /// Did this process run, and did all nodes, from `since` to `until`?
    pub(super) fn is_undisturbed(&self, process: usize, since: Tick, until: Tick) -> bool {
        let (_, schedule) = &self.processes[process];
        let runs = schedule.runs_at(since) == since
            && !schedule.changes().any(|at| (since..=until).contains(&at));
        let outages = self.nodes.iter().flat_map(|node| &node.outages);
        runs && !outages.into_iter().any(|outage| outage.is_within(since, until))
    }
}
