//! How long a key is free although somebody waits for it.
//!
//! An attempt waits from its `begin` to its `granted` or `failed`, but not while its caller does
//! not poll it, and not after its process was killed. A hold is on from `granted` to `over`, or to
//! the first step that found the lease to be over, or to the moment at which the parent deleted its
//! key; the hold of a process that was killed is on until its last known deadline. Every moment is
//! taken so that a hold looks longer and a wait shorter than it was, so an idle time that is found
//! here was at least that long.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Hold, Violation};
use crate::log::{Event, Line, Moment};

/// A stretch of time in which a key was free and at least one attempt waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    pub key: String,
    /// One of the attempts that waited when the key became idle.
    pub waiter: String,
    pub from: Moment,
    pub until: Moment,
}

impl Idle {
    pub fn lasts(&self) -> u64 {
        self.until - self.from
    }
}

/// One time in which an attempt waits for a key.
#[derive(Debug)]
struct Wait<'a> {
    attempt: &'a str,
    key: &'a str,
    from: Moment,
    until: Moment,
}

/// What changes on one key at one moment. At the same moment, what makes the key busy comes first,
/// and a wait that ends comes after one that begins: they are one stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change<'a> {
    Held,
    Waits(&'a str),
    Leaves(&'a str),
    Over,
}

/// The idle times of all keys, in the order of their keys and beginnings.
pub fn idle_times(lines: &[Line], holds: &[Hold]) -> Vec<Idle> {
    let mut changes: BTreeMap<&str, Vec<(Moment, Change)>> = BTreeMap::new();
    for wait in waits(lines) {
        let of_key = changes.entry(wait.key).or_default();
        of_key.push((wait.from, Change::Waits(wait.attempt)));
        of_key.push((wait.until, Change::Leaves(wait.attempt)));
    }
    let deletions = deletions(lines);
    for hold in holds {
        let of_key = changes.entry(&hold.key).or_default();
        of_key.push((hold.granted, Change::Held));
        of_key.push((held_until(hold, &deletions), Change::Over));
    }
    changes.into_iter().flat_map(|(key, changes)| sweep(key, changes)).collect()
}

/// All violations of (f). `start` is the moment from which on moments are told.
pub fn check_idle(idle: &[Idle], start: Moment, bound_ms: u64) -> Vec<Violation> {
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

fn waits(lines: &[Line]) -> Vec<Wait<'_>> {
    let killed = lines.iter().filter(|line| line.event == Event::Killed);
    let killed: HashMap<&str, Moment> =
        killed.map(|line| (line.attempt.as_str(), line.at)).collect();
    let last = lines.iter().map(|line| line.at).max().unwrap_or(0);
    let ends = |attempt: &str| {
        let process = attempt.rsplit_once('.').map_or(attempt, |(process, _)| process);
        killed.get(process).copied().unwrap_or(last)
    };
    let mut keys: HashMap<&str, &str> = HashMap::new();
    let mut begun: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut waits = Vec::new();
    for Line { attempt, at, event } in lines {
        match event {
            Event::Begin { key } => {
                keys.insert(attempt, key);
                begun.insert(attempt, *at);
            }
            Event::Resumed => {
                begun.insert(attempt, *at);
            }
            Event::Stalled | Event::Granted { .. } | Event::Failed { .. } => {
                let from = begun.remove(attempt.as_str());
                let until = (*at).min(ends(attempt));
                let key = keys.get(attempt.as_str()).copied();
                waits.extend(from.zip(key).map(|(from, key)| Wait { attempt, key, from, until }));
            }
            Event::Step { .. } | Event::Over | Event::Killed | Event::Gone { .. } => {}
        }
    }
    for (attempt, from) in begun {
        waits.push(Wait { attempt, key: keys[attempt], from, until: ends(attempt) });
    }
    waits.retain(|wait| wait.from < wait.until);
    waits
}

fn sweep(key: &str, mut changes: Vec<(Moment, Change)>) -> Vec<Idle> {
    changes.sort_unstable();
    let mut waiting: BTreeSet<&str> = BTreeSet::new();
    let mut holds = 0_usize;
    let mut since: Option<(Moment, &str)> = None;
    let mut found = Vec::new();
    for (at, change) in changes {
        match change {
            Change::Held => holds += 1,
            Change::Waits(attempt) => drop(waiting.insert(attempt)),
            Change::Leaves(attempt) => drop(waiting.remove(attempt)),
            Change::Over => holds -= 1,
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
