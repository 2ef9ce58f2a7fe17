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
    (j) longer than its wait  (k) lost for no reason";
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
pub fn summary(outcome: &Outcome) -> String {
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
pub fn print(outcomes: &[Outcome], replay: impl Fn(&Plan) -> String) -> bool {
    figures(outcomes);
    if outcomes.iter().any(|outcome| outcome.plan.calm.is_none()) {
        faults(outcomes);
    }
    errors(outcomes);
    let failing: Vec<_> = outcomes.iter().filter(|one| !one.failures.is_empty()).collect();
    for outcome in &failing {
        let calm = if outcome.plan.calm.is_some() { "calm " } else { "" };
        println!("\nFAILED: {calm}seed {}, {}", outcome.plan.seed, outcome.plan.topology);
        outcome.failures.iter().take(10).for_each(|failure| println!("  {failure}"));
        println!("  {} in all; again: {}", outcome.failures.len(), replay(&outcome.plan));
    }
    println!("\n{} of {} histories failed", failing.len(), outcomes.len());
    // One history may pass without a lock, when its servers are never all there. All may not.
    failing.is_empty() && outcomes.iter().any(|outcome| outcome.holds > 0)
}

fn figures(outcomes: &[Outcome]) {
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
    for ((kind, topology), row) in &rows {
        let name = format!("{topology}, {kind}");
        println!("{}", line(&name, row.cells()));
    }
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
    let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
    for (why, count) in outcomes.iter().flat_map(|outcome| &outcome.failed) {
        *failed.entry(why).or_default() += count;
    }
    println!("\ncalls that failed: {failed:?}");
}
