//! How long a key is free although somebody waits for it.
//!
//! An attempt waits from its `begin` to its `granted` or `failed`, but not while its caller does
//! not poll it, and not after its process was killed. A hold is on from `granted` to `over`, or to
//! the first step that found the lease to be over, or to the moment at which the parent deleted its
//! key; the hold of a process that was killed is on until its last known deadline. Every moment is
//! taken so that a hold looks longer and a wait shorter than it was, so an idle time that is found
//! here was at least that long.
//!
//! A call that wants several keys takes them in the order of keys, and its log does not tell which
//! it has. So a key counts as held while such a call waits that wants it and a larger key that is
//! held (by a body, or in the same way): the call may have the one, and wait for the other. And the
//! call waits for its keys while none of them is held. Calls that wait for each other in a circle
//! have keys that are free by this rule, as nobody's body has one. A process that was killed in
//! such a call may have any of its keys for one lease more.
//!
//! A key that readers hold is free for a reader, unless somebody else waits for it; and one of
//! which permits are out, for whoever asks for more of them than that.

use std::collections::{BTreeMap, BTreeSet};

use super::several::Several;
use super::waits::waits;
use super::{Hold, Violation};
use crate::lock_kind::LockKind;
use crate::log::{Event, Line, Moment};

/// A stretch of time in which a key was free and at least one attempt waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Idle {
    pub key: String,
    /// One of the attempts that waited when the key became idle.
    pub waiter: String,
    pub from: Moment,
    pub until: Moment,
}

impl Idle {
    pub(crate) fn lasts(&self) -> u64 {
        self.until - self.from
    }
}

/// What changes on one key at one moment. At the same moment, what makes the key busy comes first,
/// and a wait that ends comes after one that begins: they are one stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change<'a> {
    Held(LockKind),
    Waits(&'a str, LockKind),
    Leaves(&'a str),
    Over(LockKind),
}

/// The idle times of all keys, in the order of their keys and beginnings.
pub(crate) fn idle_times(lines: &[Line], holds: &[Hold]) -> Vec<Idle> {
    let mut changes: BTreeMap<&str, Vec<(Moment, Change<'_>)>> = BTreeMap::new();
    let deletions = deletions(lines);
    let bodies = |hold: &Hold| (hold.since, held_until(hold, &deletions));
    let waits = waits(lines);
    let several = Several::new(lines, &waits, holds.iter().map(|hold| (&*hold.key, bodies(hold))));
    for wait in &waits {
        let of_key = changes.entry(wait.key).or_default();
        for (from, until) in several.waits(wait).iter() {
            of_key.push((from, Change::Waits(wait.attempt, wait.kind)));
            of_key.push((until, Change::Leaves(wait.attempt)));
        }
    }
    for hold in holds {
        let (since, until) = bodies(hold);
        let of_key = changes.entry(&hold.key).or_default();
        of_key.push((since, Change::Held(hold.kind)));
        of_key.push((until, Change::Over(hold.kind)));
    }
    for (key, (from, until)) in several.on_the_way() {
        let of_key = changes.entry(key).or_default();
        of_key.push((from, Change::Held(LockKind::Exclusive)));
        of_key.push((until, Change::Over(LockKind::Exclusive)));
    }
    let mut idle = Vec::new();
    for (key, mut changes) in changes {
        changes.sort_unstable();
        idle.extend(sweep(key, &changes));
        idle.extend(kept_out(key, &changes));
    }
    idle
}

/// All violations of (f). `start` is the moment from which on moments are told.
pub(crate) fn check_idle(idle: &[Idle], start: Moment, bound_ms: u64) -> Vec<Violation> {
    let too_long = idle.iter().filter(|idle| idle.lasts() > bound_ms * 1_000_000);
    let violation = |idle: &Idle| Violation::Idle {
        key: idle.key.clone(),
        waiter: idle.waiter.clone(),
        after_ms: idle.from.saturating_sub(start) / 1_000_000,
        lasts_ms: idle.lasts() / 1_000_000,
    };
    too_long.map(violation).collect()
}

/// The keys that the parent has deleted, and when it was about to.
fn deletions(lines: &[Line]) -> Vec<(&str, Moment)> {
    let mut deletions = Vec::new();
    for line in lines {
        if let Event::Gone { key } = &line.event {
            deletions.push((key.as_str(), line.at));
        }
    }
    deletions
}

fn held_until(hold: &Hold, deletions: &[(&str, Moment)]) -> Moment {
    let end = hold.over.unwrap_or(hold.deadline).min(hold.late_at.unwrap_or(Moment::MAX));
    let hits = deletions.iter().filter(|(key, at)| *key == hold.key && *at >= hold.granted);
    hits.map(|&(_, at)| at).fold(end, Moment::min).max(hold.granted)
}

/// The times in which nobody held a key.
fn sweep(key: &str, changes: &[(Moment, Change<'_>)]) -> Vec<Idle> {
    let mut waiting: BTreeSet<&str> = BTreeSet::new();
    let mut holds = 0_usize;
    let mut since: Option<(Moment, &str)> = None;
    let mut found = Vec::new();
    for &(at, change) in changes {
        match change {
            Change::Held(_) => holds += 1,
            Change::Waits(attempt, _) => drop(waiting.insert(attempt)),
            Change::Leaves(attempt) => drop(waiting.remove(attempt)),
            Change::Over(_) => holds -= 1,
        }
        let waiter = waiting.first().copied().filter(|_| holds == 0);
        match (since, waiter) {
            (None, Some(waiter)) => since = Some((at, waiter)),
            (Some((from, waiter)), None) => {
                let (key, waiter) = (key.to_owned(), waiter.to_owned());
                found.push(Idle { key, waiter, from, until: at });
                since = None;
            }
            _ => {}
        }
    }
    found.retain(|idle| idle.lasts() > 0);
    found
}

/// What waits for a key and who holds it, as changes come.
#[derive(Debug, Default)]
struct Crowd<'a> {
    waiting: BTreeMap<&'a str, LockKind>,
    writers: usize,
    readers: usize,
    permits: u32,
}

impl<'a> Crowd<'a> {
    fn change(&mut self, change: Change<'a>) {
        match change {
            Change::Held(LockKind::Exclusive) => self.writers += 1,
            Change::Held(LockKind::Read) => self.readers += 1,
            Change::Held(LockKind::Permit(_)) => self.permits += 1,
            Change::Over(LockKind::Exclusive) => self.writers -= 1,
            Change::Over(LockKind::Read) => self.readers -= 1,
            Change::Over(LockKind::Permit(_)) => self.permits -= 1,
            Change::Waits(attempt, kind) => drop(self.waiting.insert(attempt, kind)),
            Change::Leaves(attempt) => drop(self.waiting.remove(attempt)),
        }
    }

    /// Do those who hold the key, if anybody does, have room for one more of this kind?
    fn has_room(&self, kind: LockKind) -> bool {
        let Crowd { writers, readers, permits, .. } = *self;
        let is_shared = self.waiting.values().all(|other| other.may_be_beside(kind));
        is_shared
            && match kind {
                LockKind::Exclusive => false,
                LockKind::Read => readers > 0 && writers == 0 && permits == 0,
                LockKind::Permit(count) => {
                    (1..count).contains(&permits) && writers == 0 && readers == 0
                }
            }
    }

    fn has_room_for(&self, attempt: &str) -> bool {
        self.waiting.get(attempt).is_some_and(|kind| self.has_room(*kind))
    }
}

/// The times in which those who held a key had room for more. Of a reader that waited by itself, as
/// others may be let in meanwhile; of anybody who wanted a permit, as the key is full then.
fn kept_out(key: &str, changes: &[(Moment, Change<'_>)]) -> Vec<Idle> {
    let mut crowd = Crowd::default();
    let mut since: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut found = Vec::new();
    for at_once in changes.chunk_by(|one, other| one.0 == other.0) {
        let at = at_once[0].0;
        for (_, change) in at_once {
            crowd.change(*change);
        }
        let mut next: Vec<&str> =
            crowd.waiting.keys().copied().filter(|attempt| crowd.has_room_for(attempt)).collect();
        if crowd.permits > 0 && !next.is_empty() {
            next = since.keys().copied().chain(next).take(1).collect();
        }
        since.retain(|waiter, from| {
            let stays = next.contains(waiter);
            if !stays && *from < at {
                let (key, waiter) = (key.to_owned(), (*waiter).to_owned());
                found.push(Idle { key, waiter, from: *from, until: at });
            }
            stays
        });
        for attempt in next {
            since.entry(attempt).or_insert(at);
        }
    }
    found
}
