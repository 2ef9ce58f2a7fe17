//! The tables at the end.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::history::Outcome;
use crate::kind::Kind;
use crate::plan::Plan;
use crate::topology::Topology;
use clap::ValueEnum;

const LEGEND: &str = "(a) two holders  (b) token not greater  (c) steps after the deadline\n\
    (d) fenced resource at fault  (e) left behind  (f) free while somebody waits\n\
    (g) changed under a reader  (h) a waiting writer passed  (i) not all keys of a call\n\
    (j) longer than its wait  (k) failed for no reason";
/// A table's row has so many histories at least, or it may be without a lock.
const SEVERAL: usize = 4;
/// Fewer hand-overs have no median that says anything.
const FEW: usize = 50;
/// By how much half of all hand-overs may be slower than three calls for a free lock, in
/// microseconds. A process that is not told asks again after up to 100 ms.
const SPARE_US: u64 = 30_000;

const COLUMNS: [(&str, usize); 20] = [
    ("runs", 6),
    ("calls", 8),
    ("holds", 8),
    ("several", 9),
    ("faults", 7),
    ("(a)", 6),
    ("(b)", 6),
    ("(c)", 6),
    ("(d)", 6),
    ("(e)", 6),
    ("(f)", 6),
    ("(g)", 6),
    ("(h)", 6),
    ("(i)", 6),
    ("(j)", 6),
    ("(k)", 6),
    ("fenced", 9),
    ("refused", 9),
    ("unfenced", 9),
    ("lost", 6),
];

/// The figures of all histories of one row.
#[derive(Debug, Default)]
struct Row {
    histories: usize,
    attempts: usize,
    holds: usize,
    /// How many of the holds were of several keys.
    groups: usize,
    faults: usize,
    /// Violations of (a) to (k).
    found: [usize; 11],
    writes: u64,
    refused: u64,
    sets: u64,
    lost: u64,
}

impl Row {
    fn add(&mut self, outcome: &Outcome) {
        self.histories += 1;
        self.attempts += outcome.attempts;
        self.holds += outcome.holds;
        self.groups += outcome.groups;
        self.faults += outcome.faults.values().sum::<usize>();
        for violation in &outcome.violations {
            self.found["abcdefghijk".find(violation.class()).unwrap_or(0)] += 1;
        }
        self.writes += outcome.totals.writes;
        self.refused += outcome.totals.refused;
        self.sets += outcome.totals.sets;
        self.lost += outcome.totals.lost;
    }

    fn cells(&self) -> Vec<u64> {
        let count = |n: &usize| u64::try_from(*n).unwrap_or(u64::MAX);
        let work = [self.histories, self.attempts, self.holds, self.groups, self.faults];
        let mut cells: Vec<u64> = work.iter().chain(&self.found).map(count).collect();
        cells.extend([self.writes, self.refused, self.sets, self.lost]);
        cells
    }
}

/// One line of the table of figures, below a column of names.
fn line<T: Display>(name: &str, cells: impl IntoIterator<Item = T>) -> String {
    let pad = |(cell, (_, width)): (T, (&str, usize))| format!("{cell:>width$}");
    let cells: Vec<_> = cells.into_iter().zip(COLUMNS).map(pad).collect();
    format!("{name:18}{}", cells.concat())
}

/// One history in a line, and what was found in it, allowed or not.
pub(crate) fn summary(outcome: &Outcome) -> String {
    let Outcome { plan, holds, failures, violations, .. } = outcome;
    let faults = outcome.faults.values().sum::<usize>();
    let found: Vec<_> = violations.iter().take(3).map(|found| format!("\n  {found}")).collect();
    let (seed, topology, failures, found) =
        (plan.seed, plan.topology, failures.len(), found.concat());
    let (Some(calm), Some(idle)) = (&plan.calm, &outcome.idle) else {
        return format!(
            "seed {seed}, {topology}: {holds} holds, {faults} faults, {failures} failures{found}"
        );
    };
    format!(
        "calm seed {seed}, {topology}: {calm}: {holds} holds, longest idle time {} ms of at most \
         {}, {} over 10 ms, machine late by {} ms, {failures} failures{found}",
        idle.longest_ms, idle.bound_ms, idle.noticeable, idle.late_ms
    )
}

/// Prints everything; true if nothing failed.
pub(crate) fn print(outcomes: &[Outcome], replay: impl Fn(&Plan) -> String) -> bool {
    let empty = figures(outcomes);
    if outcomes.iter().any(|outcome| outcome.plan.calm.is_none()) {
        faults(outcomes);
    }
    errors(outcomes);
    let complaints = complaints(outcomes, empty);
    let failing: Vec<_> = outcomes.iter().filter(|one| !one.failures.is_empty()).collect();
    for outcome in &failing {
        let calm = if outcome.plan.calm.is_some() { "calm " } else { "" };
        println!("\nFAILED: {calm}seed {}, {}", outcome.plan.seed, outcome.plan.topology);
        outcome.failures.iter().take(10).for_each(|failure| println!("  {failure}"));
        println!("  {} in all; again: {}", outcome.failures.len(), replay(&outcome.plan));
    }
    println!("\n{} of {} histories failed", failing.len(), outcomes.len());
    for complaint in &complaints {
        println!("FAILED: {complaint}");
    }
    failing.is_empty() && complaints.is_empty()
}

/// What is wrong with all histories together.
fn complaints(outcomes: &[Outcome], empty: Vec<String>) -> Vec<String> {
    let mut all: Vec<_> =
        empty.into_iter().map(|name| format!("{name}: nobody ever had a lock")).collect();
    if outcomes.is_empty() {
        all.push("no history was asked for".to_owned());
    }
    let planned: usize = outcomes.iter().map(|outcome| outcome.plan.faults.len()).sum();
    let hit: usize = outcomes.iter().flat_map(|outcome| outcome.faults.values()).sum();
    if 4 * hit < 3 * planned {
        all.push(format!("of {planned} faults, {hit} hit"));
    }
    let freezes: usize =
        outcomes.iter().filter_map(|outcome| outcome.faults.get(&Kind::ClientStop)).sum();
    let forgiven: usize = outcomes.iter().map(|outcome| outcome.forgiven).sum();
    println!("late steps that were forgiven: {forgiven}, after {freezes} freezes of clients");
    if forgiven > 1 + (freezes + outcomes.len()) / 100 {
        all.push(format!("(c) {forgiven} late steps were forgiven: more than chance would make"));
    }
    all.extend(slow_hand_overs(outcomes));
    all
}

/// The medians of all hand-overs to a process that is told, and of calls that found their lock
/// free, on the same machine: is the first one too high?
fn slow_hand_overs(outcomes: &[Outcome]) -> Option<String> {
    let ways = || outcomes.iter().filter_map(|outcome| Some(&outcome.idle.as_ref()?.ways));
    let count = ways().map(|ways| ways.hand_overs.len()).sum::<usize>();
    let passed_us = median_us(ways().flat_map(|ways| &ways.hand_overs))?;
    let call_us = median_us(ways().flat_map(|ways| &ways.calls))?;
    println!(
        "hand-overs between processes: {count}, half of them within {passed_us} us; half of the \
         calls for a free lock within {call_us} us"
    );
    let most_us = SPARE_US + 3 * call_us;
    let is_slow = count >= FEW && passed_us > most_us;
    is_slow.then(|| format!("half of the hand-overs took more than {most_us} us"))
}

fn median_us<'a>(ns: impl Iterator<Item = &'a u64>) -> Option<u64> {
    let mut all: Vec<u64> = ns.copied().collect();
    all.sort_unstable();
    all.get(all.len() / 2).map(|ns| ns / 1_000)
}

/// The table of figures. Returns the names of those rows in which nobody ever had a lock. A few
/// histories may pass without one, where their servers are never all there.
fn figures(outcomes: &[Outcome]) -> Vec<String> {
    println!("\n{LEGEND}\n\n{}", line("", COLUMNS.map(|(name, _)| name)));
    let mut rows: BTreeMap<(&str, Topology), Row> = BTreeMap::new();
    for outcome in outcomes {
        let kind = match &outcome.plan {
            plan if plan.calm.is_some() => "calm",
            plan if plan.is_beyond() => "beyond",
            _ => "within",
        };
        rows.entry((kind, outcome.plan.topology)).or_default().add(outcome);
    }
    let mut empty = Vec::new();
    for ((kind, topology), row) in &rows {
        let name = format!("{topology}, {kind}");
        println!("{}", line(&name, row.cells()));
        if row.holds == 0 && row.histories >= SEVERAL {
            empty.push(name);
        }
    }
    empty
}

fn faults(outcomes: &[Outcome]) {
    let count = |kind: Kind, topology: Topology| -> usize {
        let of = outcomes.iter().filter(|outcome| outcome.plan.topology == topology);
        of.filter_map(|outcome| outcome.faults.get(&kind)).sum()
    };
    println!();
    let header = Topology::ALL.map(|topology| format!("{topology:>11}")).concat();
    println!("{:14}{header}{:>8}", "faults", "all");
    for kind in Kind::value_variants().iter().copied() {
        let counts = Topology::ALL.map(|topology| count(kind, topology));
        let cells = counts.map(|count| format!("{count:>11}")).concat();
        println!("{:14}{cells}{:>8}", format!("{kind:?}"), counts.iter().sum::<usize>());
    }
}

fn errors(outcomes: &[Outcome]) {
    let (mut failed, mut released) = (BTreeMap::new(), BTreeMap::new());
    for outcome in outcomes {
        add(&mut failed, &outcome.failed);
        add(&mut released, &outcome.released);
    }
    println!("\ncalls that failed: {failed:?}");
    println!("what awaited releases found: {released:?}");
}

fn add<'a>(all: &mut BTreeMap<&'a str, usize>, some: &'a BTreeMap<String, usize>) {
    for (word, count) in some {
        *all.entry(word).or_default() += count;
    }
}
