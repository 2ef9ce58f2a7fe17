//! Since when a lock is free on the nodes, and what has gone wrong with it on the way.

use super::node::{Command, Node};
use super::plan::{KEYS, Tick};
use crate::key::LockKey;

/// What those who wait for a lock need of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// Nobody may have it.
    Whole,
    /// There has to be room beside holders of the same shared kind.
    Place,
}

/// Until when each lock stood on each node.
#[derive(Debug)]
pub(super) struct Vacancies {
    nodes: Vec<[Taken; KEYS.len()]>,
    /// How many holders of a shared kind there is room for.
    places: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    /// By anybody.
    at_all: Stood,
    /// So that nobody of a shared kind has room.
    wholly: Stood,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stood {
    /// In microseconds; in the future while it stands.
    until: u64,
    /// Its lease did not run out: a command ended it.
    was_freed: bool,
}

/// A lock that is free on so many nodes that somebody could have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vacancy {
    pub(super) since: Tick,
    /// A command ended the lease, and it did not run out.
    pub(super) was_freed: bool,
}

impl Vacancies {
    pub(super) fn new(nodes: usize, places: usize) -> Self {
        Self { nodes: vec![Default::default(); nodes], places }
    }

    /// Something happened to a node at `at`.
    pub(super) fn note(&mut self, index: usize, node: &Node, at: Tick) {
        let now = at * 1000;
        for (key, taken) in KEYS.iter().zip(&mut self.nodes[index]) {
            taken.at_all.note(node.lease_ends(key), now);
            taken.wholly.note(node.has_room_from(key, self.places, now), now);
        }
    }

    /// The vacancy of a key, if it is free on a quorum of nodes.
    pub(super) fn of(
        &self,
        (key, demand): (usize, Demand),
        quorum: usize,
        now: Tick,
    ) -> Option<Vacancy> {
        let stood = self.nodes.iter().map(|node| match demand {
            Demand::Whole => node[key].at_all,
            Demand::Place => node[key].wholly,
        });
        let free = stood.filter(|stood| stood.until <= now * 1000);
        let mut free: Vec<_> = free
            .map(|Stood { until, was_freed }| Vacancy { since: until.div_ceil(1000), was_freed })
            .collect();
        free.sort_unstable_by_key(|vacancy| vacancy.since);
        // Of those that were free in time, none may have run out.
        let was_freed = free.iter().take(quorum).all(|vacancy| vacancy.was_freed);
        free.get(quorum - 1).map(|last| Vacancy { since: last.since, was_freed })
    }
}

impl Stood {
    /// It stands until `ends`, or not at all.
    fn note(&mut self, ends: Option<u64>, now: u64) {
        match ends {
            Some(ends) if now < ends => *self = Self { until: ends, was_freed: false },
            _ => self.free(now),
        }
    }

    fn free(&mut self, now: u64) {
        if self.until > now {
            *self = Self { until: now, was_freed: true };
        }
    }
}

/// Is a command about this key?
pub(super) fn concerns(command: &Command, key: &str) -> bool {
    let is = |known: &LockKey| known.name() == key;
    match command {
        Command::Renew(claims) | Command::AcquireAll(claims) | Command::ReleaseAll(claims) => {
            claims.iter().any(|claim| is(&claim.key))
        }
        Command::Acquire(claim)
        | Command::Raise(claim, _)
        | Command::Release(claim)
        | Command::Leave(claim)
        | Command::GiveBack(claim, _)
        | Command::Retain(claim, _)
        | Command::Nudge(claim)
        | Command::Rotate { held: claim, .. }
        | Command::Downgrade { held: claim, .. } => is(&claim.key),
        Command::Join(entry) | Command::Look(entry, _) => is(&entry.claim.key),
        Command::Founders(_) | Command::Introduce(_) => true,
    }
}
