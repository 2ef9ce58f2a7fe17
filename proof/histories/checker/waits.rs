//! When attempts wait for their keys.

use std::collections::{BTreeMap, HashMap};

use super::spans::Spans;
use crate::lock_kind::LockKind;
use crate::log::{Event, Line, Moment};
use crate::wanted::call_of;

/// One time in which an attempt waits for a key.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    pub attempt: &'a str,
    pub key: &'a str,
    pub kind: LockKind,
    pub from: Moment,
    pub until: Moment,
}

/// The processes that the parent has killed, and when.
pub(super) fn killed(lines: &[Line]) -> HashMap<&str, Moment> {
    let killed = lines.iter().filter(|line| line.event == Event::Killed);
    killed.map(|line| (line.attempt.as_str(), line.at)).collect()
}

pub(super) fn process_of(attempt: &str) -> &str {
    attempt.rsplit_once('.').map_or(attempt, |(process, _)| process)
}

pub(super) fn waits(lines: &[Line]) -> Vec<Wait<'_>> {
    let killed = killed(lines);
    let last = lines.iter().map(|line| line.at).max().unwrap_or(0);
    let ends = |attempt: &str| killed.get(process_of(attempt)).copied().unwrap_or(last);
    let mut wanted: HashMap<&str, (&str, LockKind)> = HashMap::new();
    let mut begun: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut waits = Vec::new();
    for Line { attempt, at, event } in lines {
        match event {
            Event::Begin { key, kind } => {
                wanted.insert(attempt, (key, *kind));
                begun.insert(attempt, *at);
            }
            Event::Resumed => {
                begun.insert(attempt, *at);
            }
            Event::Stalled | Event::Granted { .. } | Event::Failed { .. } => {
                let from = begun.remove(attempt.as_str());
                let until = (*at).min(ends(attempt));
                let key = wanted.get(attempt.as_str()).copied();
                let wait = |(from, (key, kind))| Wait { attempt, key, kind, from, until };
                waits.extend(from.zip(key).map(wait));
            }
            // Who has a write lock does not wait for a read lock.
            Event::Downgrade { .. }
            | Event::Waits { .. }
            | Event::Together { .. }
            | Event::Found { .. }
            | Event::View { .. }
            | Event::Step { .. }
            | Event::Lapsed
            | Event::Released { .. }
            | Event::Over
            | Event::Kept { .. }
            | Event::Frozen
            | Event::Thawed
            | Event::Killed
            | Event::Gone { .. } => {}
        }
    }
    for (attempt, from) in begun {
        let (key, kind) = wanted[attempt];
        waits.push(Wait { attempt, key, kind, from, until: ends(attempt) });
    }
    waits.retain(|wait| wait.from < wait.until);
    waits
}

/// When calls were not polled, and processes frozen; what does not come to an end goes on.
pub(super) fn away(lines: &[Line]) -> HashMap<&str, Spans> {
    let mut changes: HashMap<&str, Vec<(Moment, bool)>> = HashMap::new();
    for Line { attempt, at, event } in lines {
        let begins = match event {
            Event::Stalled | Event::Frozen => true,
            Event::Resumed | Event::Thawed => false,
            _ => continue,
        };
        changes.entry(call_of(attempt)).or_default().push((*at, begins));
    }
    let spans = |mut changes: Vec<(Moment, bool)>| {
        changes.sort_unstable();
        let next = changes.iter().skip(1).map(|change| change.0).chain([Moment::MAX]);
        Spans::new(changes.iter().zip(next).filter(|(from, _)| from.1).map(|(a, b)| (a.0, b)))
    };
    changes.into_iter().map(|(who, changes)| (who, spans(changes))).collect()
}
