//! Tables and goals of the open loops.

use super::number::{number, spread};
use super::table::Table;
use crate::harness::{Kind, Results, Role, SCENARIOS, SUBJECTS, Scenario};

const PERFECT: &str = "perfect";

/// How to read the tables.
pub const TEXT: &str = "\
Arrivals come by chance, at so many percent of the rate that a perfect lock could serve, and none
waits for those before it: each wants the one key as soon as it has come. A wait goes from the
moment for which the arrival was *scheduled* to the first line of the body. `perfect` is
arithmetic: the same arrivals, served in their order, each for the body and one round trip (two
round trips where the body is empty). *x perfect* compares the p99. *Idle* is the longest time in
which somebody waited and nobody was in a body, and in how many such times it was longer than 10
ms. *Dropped* arrivals found 2,000 others under way; *unserved* ones did not get the lock within
half of a window after it. A *late call* is the part of a wait for which no lock was to blame: the
process woke up after the scheduled moment. Names say the load in percent, the body, and the
layout: one process, three, or three with eight clients each.\n";

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().filter(|scenario| matches!(scenario.kind, Kind::Open(_)))
}

pub fn tables(results: &Results) -> Vec<Table> {
    scenarios().map(|scenario| table(results, scenario.name)).collect()
}

fn table(results: &Results, scenario: &str) -> Table {
    let mut table = Table::new(&[
        scenario,
        "wait p50, us",
        "p99, us",
        "max, us",
        "x perfect",
        "served/s",
        "idle, ms; over 10 ms",
        "dropped, unserved",
        "body p50, us",
        "late call p99, us",
        "sum",
        "errors",
    ]);
    let measured = SUBJECTS.iter().filter(|one| results.series(scenario, one.name).is_some());
    for subject in measured {
        let median = |figure| results.median(scenario, subject.name, figure).map(number);
        let both = |a, b, between: &str| Some(format!("{}{between}{}", median(a)?, median(b)?));
        let p99 = |subject| (scenario, subject, "wait_p99_us");
        let is_perfect = subject.name == PERFECT;
        // It has no processes, and its holds include the hand-over.
        let of_locks = |cell: Option<String>| cell.filter(|_| !is_perfect);
        table.row([
            Some(subject.name.to_owned()),
            median("wait_p50_us"),
            results.spread(scenario, subject.name, "wait_p99_us").map(spread),
            median("wait_max_us"),
            of_locks(results.ratio(p99(subject.name), p99(PERFECT)).map(spread)),
            median("served_per_s"),
            of_locks(both("longest_idle_ms", "long_idles", "; ")),
            of_locks(both("overload", "unserved", ", ")),
            of_locks(median("body_p50_us")),
            of_locks(median("late_call_p99_us")),
            of_locks(super::tables::sum(results, scenario, subject.name)),
            of_locks(median("errors")),
        ]);
    }
    table
}

/// The figure, what it shall be, what it is, and whether that will do.
pub type Goal = (&'static str, String, Option<(String, bool)>);

pub fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    // A quorum or a replica takes part in each hold, which the arithmetic does not know.
    for (subject, figure, more) in [
        ("redlock", "open loops: p99 wait", 1.0),
        ("redlock-pool", "the same with a pool", 1.0),
        ("redlock-cluster", "the same in a cluster", 1.0),
        ("redlock-3-masters", "the same on 3 masters", 4.0),
        ("redlock-min-replicas", "the same with `min_replicas(1)`", 4.0),
    ] {
        let bound = "2 x perfect + 2 round trips";
        let bound = if more > 1.0 { format!("{more} x ({bound})") } else { bound.to_owned() };
        let bound = format!("<= {bound}, all");
        goals.push((figure, bound, waits(results, subject, more)));
    }
    for (subject, figure) in [
        ("redlock", "idle though somebody waits, over 10 ms"),
        ("redlock-pool", "the same with a pool"),
    ] {
        goals.push((figure, "0".to_owned(), idle(results, subject)));
    }
    for (subject, figure) in
        [("redlock", "open loops: p99 wait of peers"), ("redlock-pool", "the same, of a pool")]
    {
        goals.push((figure, "ahead of every peer, all".to_owned(), ahead(results, subject)));
    }
    goals
}

/// The scenario that is furthest from its bound, and how many keep it.
fn waits(results: &Results, subject: &str, more: f64) -> Option<(String, bool)> {
    let part = |scenario: &'static Scenario| {
        let of = |subject, figure| results.median(scenario.name, subject, figure);
        let perfect = of(PERFECT, "wait_p99_us")?;
        let bound = more * (2.0 * perfect + 2.0 * of(PERFECT, "round_trip_us")?);
        Some((scenario.name, of(subject, "wait_p99_us")? / bound))
    };
    let parts: Vec<_> = scenarios().filter_map(part).collect();
    let worst = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let met = parts.iter().filter(|(_, part)| *part <= 1.0).count();
    let text =
        format!("{met} of {}; most: {} of the bound ({})", parts.len(), number(worst.1), worst.0);
    Some((text, met == parts.len()))
}

/// In any round of any scenario.
fn idle(results: &Results, subject: &str) -> Option<(String, bool)> {
    let measured = |scenario: &'static Scenario| {
        let of = |figure| Some(results.spread(scenario.name, subject, figure)?.max);
        Some((scenario.name, of("long_idles")?, of("longest_idle_ms")?))
    };
    let measured: Vec<_> = scenarios().filter_map(measured).collect();
    let worst = measured.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let count: f64 = measured.iter().map(|(_, count, _)| count).sum();
    let text = format!("{}; longest: {} ms ({})", number(count), number(worst.2), worst.0);
    Some((text, count == 0.0))
}

/// Only where a peer was measured.
fn ahead(results: &Results, subject: &str) -> Option<(String, bool)> {
    let is_ahead = |scenario: &'static Scenario| {
        let of = |subject| results.median(scenario.name, subject, "wait_p99_us");
        let peers = SUBJECTS.iter().filter(|peer| peer.role == Role::Peer);
        let best = peers.filter_map(|peer| of(peer.name)).reduce(f64::min)?;
        Some(of(subject)? < best)
    };
    let all: Vec<_> = scenarios().filter_map(is_ahead).collect();
    let count = all.iter().filter(|is| **is).count();
    let text = format!("{count} of {}", all.len());
    (!all.is_empty()).then_some((text, count == all.len()))
}
