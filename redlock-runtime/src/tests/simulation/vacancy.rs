//! Since when a lock is free on the nodes, and what has gone wrong with it on the way.

use super::node::{Command, Node};
use super::plan::Tick;
use crate::key::LockKey;

/// Until when each lock stood on each node.
#[derive(Debug)]
pub(super) struct Vacancies {
    nodes: Vec<Vec<(LockKey, Stood)>>,
}

#[derive(Debug, Clone, Copy)]
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
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes: vec![Vec::new(); nodes] }
    }

    /// Something happened to a node at `at`.
    pub(super) fn note(&mut self, index: usize, node: &Node, at: Tick) {
        let (known, now) = (&mut self.nodes[index], at * 1000);
        let is_forgotten = |key: &LockKey| node.records.iter().all(|record| record.key != *key);
        for (_, stood) in known.iter_mut().filter(|(key, _)| is_forgotten(key)) {
            stood.free(now);
        }
        for record in &node.records {
            let position = known.iter().position(|(key, _)| *key == record.key);
            let position = position.unwrap_or_else(|| {
                known.push((record.key.clone(), Stood { until: 0, was_freed: false }));
                known.len() - 1
            });
            let stood = &mut known[position].1;
            match record.live(now) {
                Some(lease) => *stood = Stood { until: lease.ends, was_freed: false },
                None => stood.free(now),
            }
        }
    }

    /// The vacancy of a key, if it is free on a quorum of nodes.
    pub(super) fn of(&self, key: &str, quorum: usize, now: Tick) -> Option<Vacancy> {
        let mut free: Vec<Vacancy> = Vec::new();
        for node in &self.nodes {
            let stood = node.iter().find(|(known, _)| known.name() == key).map(|(_, stood)| stood);
            let vacancy = match stood {
                None => Vacancy { since: 0, was_freed: false },
                Some(stood) if stood.until > now * 1000 => continue,
                Some(Stood { until, was_freed }) => {
                    Vacancy { since: until.div_ceil(1000), was_freed: *was_freed }
                }
            };
            free.push(vacancy);
        }
        free.sort_unstable_by_key(|vacancy| vacancy.since);
        // Of those that were free in time, none may have run out.
        let was_freed = free.iter().take(quorum).all(|vacancy| vacancy.was_freed);
        free.get(quorum - 1).map(|last| Vacancy { since: last.since, was_freed })
    }
}

impl Stood {
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
        Command::Renew(claims) => claims.iter().any(|claim| is(&claim.key)),
        Command::Acquire(claim)
        | Command::Raise(claim, _)
        | Command::Release(claim)
        | Command::Leave(claim)
        | Command::GiveBack(claim, _)
        | Command::Rotate { held: claim, .. } => is(&claim.key),
        Command::Join(entry) | Command::Look(entry) => is(&entry.claim.key),
        Command::Nudge(known) => is(known),
        Command::Roll(_) | Command::Introduce(_) => true,
    }
}
