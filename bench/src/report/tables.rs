//! Which figures stand in which table.

use super::number::{number, spread};
use super::table::Table;
use crate::harness::{Results, SUBJECTS, Spread, Subject};

pub fn measured<'r>(
    results: &'r Results,
    scenario: &'r str,
) -> impl Iterator<Item = &'static Subject> + 'r {
    SUBJECTS.iter().filter(move |subject| results.series(scenario, subject.name).is_some())
}

/// A figure with its spread.
pub fn with_spread(results: &Results, of: (&str, &str, &str)) -> Option<String> {
    Some(spread(results.spread(of.0, of.1, of.2)?))
}

pub fn median(results: &Results, of: (&str, &str, &str)) -> Option<String> {
    Some(number(results.median(of.0, of.1, of.2)?))
}

pub fn one_task(results: &Results) -> Table {
    const ONE: &str = "uncontended-1";
    let mut table = Table::new(&[
        "1 task",
        "p50 of a cycle, us",
        "x raw",
        "p99, us",
        "client CPU, us",
        "server CPU, us",
        "scripts",
        "all calls",
    ]);
    for subject in measured(results, ONE) {
        let of = |figure| (ONE, subject.name, figure);
        let raw = (ONE, "raw-scripts", "cycle_p50_us");
        table.row([
            Some(subject.name.to_owned()),
            with_spread(results, of("cycle_p50_us")),
            results.ratio(of("cycle_p50_us"), raw).map(spread),
            median(results, of("cycle_p99_us")),
            median(results, of("client_cpu_us")),
            median(results, of("server_cpu_us")),
            median(results, of("scripts")),
            median(results, of("calls")),
        ]);
    }
    table
}

pub fn many_tasks(results: &Results, scenario: &str) -> Table {
    let mut table = Table::new(&[
        &scenario.replace("uncontended-", "tasks: "),
        "cycles/s",
        "of the ceiling",
        "client CPU, us a cycle",
        "server CPU, us a cycle",
    ]);
    for subject in measured(results, scenario) {
        let of = |figure| (scenario, subject.name, figure);
        let ceiling = (scenario, "raw-pipelined", "cycles_per_s");
        table.row([
            Some(subject.name.to_owned()),
            with_spread(results, of("cycles_per_s")),
            results.ratio(of("cycles_per_s"), ceiling).map(spread),
            median(results, of("client_cpu_us")),
            median(results, of("server_cpu_us")),
        ]);
    }
    table
}

pub fn hot(results: &Results, scenario: &str) -> Table {
    let mut table = Table::new(&[
        scenario,
        "hand-overs/s",
        "cycles/s",
        "wait p50 / p99 / max, us",
        "share: workers, processes",
        "scripts, publishes, all calls a hand-over",
        "sum",
        "errors",
    ]);
    for subject in measured(results, scenario) {
        let of = |figure| (scenario, subject.name, figure);
        let together = |figures: [&'static str; 3], between| {
            let parts = figures.map(|figure| median(results, of(figure)).unwrap_or("-".to_owned()));
            Some(parts.join(between))
        };
        let shares = [of("share_of_workers"), of("share_of_processes")];
        let shares = shares.map(|share| median(results, share).unwrap_or("-".to_owned()));
        table.row([
            Some(subject.name.to_owned()),
            with_spread(results, of("hand_overs_per_s")),
            median(results, of("cycles_per_s")),
            together(["wait_p50_us", "wait_p99_us", "wait_max_us"], " / "),
            Some(shares.join(", ")),
            together(
                ["scripts_per_hand_over", "publishes_per_hand_over", "calls_per_hand_over"],
                ", ",
            ),
            sum(results, scenario, subject.name),
            median(results, of("errors")),
        ]);
    }
    table
}

/// Whether every increment arrived, in all rounds.
pub fn sum(results: &Results, scenario: &str, subject: &str) -> Option<String> {
    let missing = results.series(scenario, subject)?.missing()?;
    Some(if missing == 0.0 { "exact".to_owned() } else { format!("**{missing} wrong**") })
}

pub fn latency(results: &Results) -> Table {
    let mut table = Table::new(&["hand-over", "release sent to next body, p50 us", "round trips"]);
    for subject in measured(results, "hand-over") {
        let of = ("hand-over", subject.name, "passed_p50_us");
        let round_trip = ("ping-1ms", "raw-ping", "cycle_p50_us");
        table.row([
            Some(subject.name.to_owned()),
            with_spread(results, of),
            results.ratio(of, round_trip).map(spread),
        ]);
    }
    table
}

/// How many round trips a figure of a scenario that is behind a delay takes.
pub fn round_trips(results: &Results, of: (&str, &str, &str)) -> Option<Spread> {
    let (_, delay) = of.0.rsplit_once('-')?;
    results.ratio(of, (&format!("far-ping-{delay}"), "raw-ping", "cycle_p50_us"))
}

/// What calls and hand-overs cost behind this delay each way.
pub fn far(results: &Results, delay: &str) -> Table {
    let (call, hand_over) = (format!("far-1-{delay}"), format!("far-hand-over-{delay}"));
    let title = format!("{delay} each way");
    let mut table = Table::new(&[
        &title,
        "a call, p50, us",
        "round trips",
        "a hand-over, p50, us",
        "round trips",
    ]);
    for subject in measured(results, &call) {
        let (one, passed) =
            ((&*call, subject.name, "cycle_p50_us"), (&*hand_over, subject.name, "passed_p50_us"));
        table.row([
            Some(subject.name.to_owned()),
            median(results, one),
            round_trips(results, one).map(spread),
            median(results, passed),
            round_trips(results, passed).map(spread),
        ]);
    }
    table
}

pub fn idle(results: &Results) -> Table {
    let mut table = Table::new(&[
        "idle",
        "waiters",
        "scripts/s",
        "all calls/s",
        "client CPU, %",
        "server CPU, %",
    ]);
    for subject in measured(results, "idle") {
        let of = |figure| median(results, ("idle", subject.name, figure));
        table.row([
            Some(subject.name.to_owned()),
            of("waiters"),
            of("scripts_per_s"),
            of("calls_per_s"),
            of("client_cpu_percent"),
            of("server_cpu_percent"),
        ]);
    }
    table
}

/// What is measured of ours only.
pub fn single(results: &Results) -> Table {
    let mut table = Table::new(&["alone", "figure"]);
    let leases = "redlock-leases";
    for (name, (scenario, subject, figure)) in [
        ("round trip (`PING`), p50 us", ("ping", "raw-ping", "cycle_p50_us")),
        ("round trip after a pause of 1 ms, p50 us", ("ping-1ms", "raw-ping", "cycle_p50_us")),
        ("re-entered call, ns", ("re-entry", "redlock-reentry", "ns_per_call")),
        ("500 functions, `cargo check`, user s: plain", ("compile", "compile", "plain_user_s")),
        ("the same, `tracing::instrument`", ("compile", "compile", "instrument_user_s")),
        ("the same, `redis_lock`", ("compile", "compile", "redlock_user_s")),
        ("held leases", ("leases", leases, "leases")),
        ("lost", ("leases", leases, "lost")),
        ("renewals", ("leases", leases, "renewals")),
        ("least time left of any lease of 30 s, s", ("leases", leases, "least_left_s")),
        ("client CPU, %", ("leases", leases, "client_cpu_percent")),
        ("server CPU, %", ("leases", leases, "server_cpu_percent")),
        ("client memory, bytes a lease", ("leases", leases, "bytes_per_lease")),
    ] {
        if let Some(text) = with_spread(results, (scenario, subject, figure)) {
            table.row([Some(name.to_owned()), Some(text)]);
        }
    }
    table
}

pub fn subjects(results: &Results) -> Table {
    let mut table = Table::new(&["name", "version", "what"]);
    for subject in SUBJECTS {
        let why = results.not_measured.get(subject.name);
        let is_measured = results.scenarios.values().any(|all| all.contains_key(subject.name));
        if why.is_none() && !is_measured {
            continue;
        }
        let what = match why {
            Some(why) => format!("not measured: {}", why.replace('|', "/")),
            None => subject.about.to_owned(),
        };
        let version = results.machine.versions.get(subject.name).cloned();
        table.row([Some(format!("`{}`", subject.name)), version, Some(what)]);
    }
    table
}
