//! What calls for several keys may have while they wait: their logs do not tell.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::spans::Spans;
use super::together::{Together, calls_of_several};
use super::waits::{Wait, killed, process_of};
use crate::log::{Line, Moment};

#[derive(Debug)]
pub(super) struct Several<'a> {
    /// The keys of the call that an attempt belongs to.
    keys: HashMap<&'a str, Vec<&'a str>>,
    /// When a body has a key, or a call on its way may have it.
    busy: BTreeMap<&'a str, Spans>,
    on_the_way: Vec<(&'a str, (Moment, Moment))>,
}

/// One call, and when it may have some of its keys.
#[derive(Debug)]
struct OnTheWay<'a> {
    keys: Vec<&'a str>,
    /// While it waits, also while it is not polled: what it has then, its process renews.
    from: Moment,
    until: Moment,
    /// Behind the end of its process: what it had then ends with its lease.
    dead_until: Moment,
}

impl<'a> Several<'a> {
    /// `bodies`: the keys that bodies have had, and when.
    pub(super) fn new(
        lines: &'a [Line],
        waits: &[Wait<'a>],
        bodies: impl Iterator<Item = (&'a str, (Moment, Moment))>,
    ) -> Several<'a> {
        let calls = calls_of_several(lines);
        let killed = killed(lines);
        let calls: Vec<(&Together<'_>, OnTheWay<'_>)> = calls
            .iter()
            .filter_map(|call| Some((call, OnTheWay::of(call, waits, &killed)?)))
            .collect();
        let mut busy: BTreeMap<&str, Vec<(Moment, Moment)>> = BTreeMap::new();
        for (key, span) in bodies {
            busy.entry(key).or_default().push(span);
        }
        let mut busy: BTreeMap<&str, Spans> =
            busy.into_iter().map(|(key, spans)| (key, Spans::new(spans))).collect();
        let keys: BTreeSet<&str> = calls.iter().flat_map(|(_, call)| call.keys.clone()).collect();
        let mut on_the_way = Vec::new();
        for key in keys.into_iter().rev() {
            let ours = calls.iter().filter(|(_, call)| call.keys.contains(&key));
            let spans: Vec<_> = ours.flat_map(|(_, call)| call.may_have(key, &busy)).collect();
            on_the_way.extend(spans.iter().map(|span| (key, *span)));
            let of_key = busy.entry(key).or_default();
            *of_key = of_key.or(&Spans::new(spans));
        }
        let parts = calls.iter().flat_map(|(call, on_the_way)| {
            call.parts.iter().map(|(attempt, _)| (*attempt, on_the_way.keys.clone()))
        });
        Several { keys: parts.collect(), busy, on_the_way }
    }

    /// When calls that wait may have had a key.
    pub(super) fn on_the_way(&self) -> impl Iterator<Item = (&'a str, (Moment, Moment))> {
        self.on_the_way.iter().copied()
    }

    /// The parts of a wait in which its call could have gone on: of several keys, all were free.
    pub(super) fn waits(&self, wait: &Wait<'_>) -> Spans {
        let all = Spans::new([(wait.from, wait.until)]);
        let Some(keys) = self.keys.get(wait.attempt) else { return all };
        let busy = keys.iter().filter_map(|key| self.busy.get(key));
        busy.fold(Spans::default(), |busy, one| busy.or(one)).gaps(wait.from, wait.until)
    }
}

impl<'a> OnTheWay<'a> {
    /// `None`: the call has not waited.
    fn of(
        call: &Together<'a>,
        waits: &[Wait<'a>],
        killed: &HashMap<&str, Moment>,
    ) -> Option<OnTheWay<'a>> {
        let (first, _) = call.parts.first()?;
        let waits: Vec<&Wait<'_>> = waits.iter().filter(|wait| wait.attempt == *first).collect();
        let from = waits.iter().map(|wait| wait.from).min()?;
        let until = waits.iter().map(|wait| wait.until).max()?;
        let was_killed = killed.get(process_of(call.call)) == Some(&until);
        let dead_ms = if was_killed { call.expire_ms } else { 0 };
        let keys = call.parts.iter().map(|(_, key)| *key).collect();
        Some(OnTheWay { keys, from, until, dead_until: until + dead_ms * 1_000_000 })
    }

    /// When it may have a key: while it waits for a larger one that is held.
    fn may_have(&self, key: &str, busy: &BTreeMap<&str, Spans>) -> Vec<(Moment, Moment)> {
        let larger = self.keys.iter().filter(|larger| **larger > key);
        let larger = larger.filter_map(|larger| busy.get(larger));
        let waits = larger.flat_map(|busy| busy.within(self.from, self.until).into_iter());
        waits.chain([(self.until, self.dead_until)]).filter(|(from, until)| from < until).collect()
    }
}
