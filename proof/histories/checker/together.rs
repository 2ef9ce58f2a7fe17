//! Calls for several keys: all of them or none, under one fencing token; and calls that end.
//!
//! That no key of such a call is held by another one, and that its token is above those before it,
//! is judged key by key, as of any lock.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::spans::Spans;
use super::waits::away;
use super::{Hold, Violation};
use crate::log::{Event, Line, Moment};
use crate::wanted::call_of;

/// One call that wants several keys.
#[derive(Debug)]
pub(super) struct Together<'a> {
    pub call: &'a str,
    pub expire_ms: u64,
    /// How many keys it wants.
    count: usize,
    /// The attempt of each, and its key, in the order in which the call names them.
    pub parts: Vec<(&'a str, &'a str)>,
}

pub(super) fn calls_of_several(lines: &[Line]) -> Vec<Together<'_>> {
    let mut calls: BTreeMap<&str, Together<'_>> = BTreeMap::new();
    for Line { attempt, event, .. } in lines {
        if let Event::Together { keys, expire_ms } = event {
            let (expire_ms, count) = (*expire_ms, *keys);
            calls.insert(attempt, Together { call: attempt, expire_ms, count, parts: Vec::new() });
        }
    }
    for Line { attempt, event, .. } in lines {
        if let Event::Begin { key, .. } = event
            && let Some(call) = calls.get_mut(call_of(attempt))
        {
            call.parts.push((attempt, key));
        }
    }
    calls.into_values().collect()
}

/// All violations of (i), but for those of `check_found`.
pub(crate) fn check_together(lines: &[Line], holds: &[Hold]) -> Vec<Violation> {
    let by_attempt: HashMap<&str, &Hold> =
        holds.iter().map(|hold| (hold.attempt.as_str(), hold)).collect();
    let mut found = Vec::new();
    for call in calls_of_several(lines) {
        let held: Vec<&Hold> =
            call.parts.iter().filter_map(|(part, _)| by_attempt.get(part).copied()).collect();
        let Some(first) = held.first() else { continue };
        let mut report = |what: String| {
            found.push(Violation::Part { call: call.call.to_owned(), what });
        };
        let keys: HashSet<&str> = held.iter().map(|hold| hold.key.as_str()).collect();
        if keys.len() < call.count {
            let missing = call.parts.iter().map(|(_, key)| *key).filter(|key| !keys.contains(key));
            let missing: Vec<_> = missing.collect();
            report(format!("its body ran without {missing:?}, with {} keys", keys.len()));
        }
        if let Some(other) = held.iter().find(|other| other.fencing != first.fencing) {
            let (one, two) = (first.fencing, other.fencing);
            report(format!("{} has token {one}, and {} has {two}", first.key, other.key));
        }
        if let Some(other) = held.iter().find(|other| other.granted != first.granted) {
            report(format!("its body had {} and {} one by one", first.key, other.key));
        }
        if let Some(other) = held.iter().find(|other| other.over != first.over) {
            report(format!("{} and {} were let go one by one", first.key, other.key));
        }
    }
    found
}

/// All violations of (i) that were seen on the servers: a body had begun, its lease was not over,
/// and a key did not stand there.
pub(crate) fn check_found(lines: &[Line], holds: &[Hold]) -> Vec<Violation> {
    let deadlines: HashMap<&str, Moment> =
        holds.iter().map(|hold| (hold.attempt.as_str(), hold.deadline)).collect();
    let mut found = Vec::new();
    for Line { attempt, at, event } in lines {
        if let Event::Found { wrong: Some(what) } = event
            && deadlines.get(attempt.as_str()).is_some_and(|deadline| at <= deadline)
        {
            found.push(Violation::Absent { attempt: attempt.clone(), what: what.clone() });
        }
    }
    found
}

/// All violations of (j): a call that was polled, by a process that was not frozen, went on for
/// longer than it was to wait, by more than the slack.
pub(crate) fn check_ends(lines: &[Line], slack_ms: u64) -> Vec<Violation> {
    let ends = ends(lines);
    let away = away(lines);
    let mut found = Vec::new();
    for Line { attempt, at, event } in lines {
        let (Event::Waits { ms }, Some(end)) = (event, ends.get(attempt.as_str())) else {
            continue;
        };
        let process = attempt.rsplit_once('.').map_or("", |(process, _)| process);
        let none = Spans::default();
        let [stalls, freezes] = [attempt.as_str(), process].map(|who| away.get(who));
        let away = stalls.unwrap_or(&none).or(freezes.unwrap_or(&none));
        let waited_ms = away.gaps(*at, *end).length() / 1_000_000;
        if waited_ms > ms + slack_ms {
            let (call, wait_ms) = (attempt.clone(), *ms);
            found.push(Violation::Endless { call, wait_ms, waited_ms });
        }
    }
    found
}

/// When the body of each call began, or the call failed, whichever came first.
fn ends(lines: &[Line]) -> HashMap<&str, Moment> {
    let mut ends: HashMap<&str, Moment> = HashMap::new();
    for Line { attempt, at, event } in lines {
        if matches!(event, Event::Granted { .. } | Event::Failed { .. }) {
            let end = ends.entry(call_of(attempt)).or_insert(*at);
            *end = (*end).min(*at);
        }
    }
    ends
}
