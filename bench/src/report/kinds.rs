//! Other kinds of locks: their tables and their goals.

use super::number::{number, spread};
use super::table::Table;
use super::tables::{measured, median, sum, with_spread};
use crate::harness::Results;

/// How to read the tables.
pub const TEXT: &str = "\
In `readers` a writer pauses for 20 ms between its cycles, among 8 readers that never pause, in 3
processes, with bodies of 5 ms; *beyond the longest hold* is what is left of a wait when the longest
of the readers' holds that it met is taken off. In `batch` 24 readers in 3 processes all come while
a writer has the lock; round trips are those that the hand-over is divided by.\n";

/// In the order of the page.
pub fn tables(results: &Results) -> Vec<Table> {
    vec![kinds(results, "kinds-1"), kinds(results, "kinds-64"), readers(results), batch(results)]
}

/// Other kinds of locks beside the plain one, as a guard.
fn kinds(results: &Results, scenario: &str) -> Table {
    let mut table = Table::new(&[
        &scenario.replace("kinds-", "tasks: "),
        "p50 of a cycle, us",
        "of redlock-guard",
        "cycles/s",
        "client CPU, us a cycle",
        "server CPU, us a cycle",
    ]);
    for subject in measured(results, scenario) {
        let of = |figure| (scenario, subject.name, figure);
        let plain = (scenario, "redlock-guard", "cycle_p50_us");
        table.row([
            Some(subject.name.to_owned()),
            with_spread(results, of("cycle_p50_us")),
            results.ratio(of("cycle_p50_us"), plain).map(spread),
            with_spread(results, of("cycles_per_s")),
            median(results, of("client_cpu_us")),
            median(results, of("server_cpu_us")),
        ]);
    }
    table
}

fn readers(results: &Results) -> Table {
    let mut table = Table::new(&[
        "readers",
        "wait of the writer p50 / p99 / max, us",
        "of readers",
        "reader's hold p99, us",
        "writer's wait beyond the longest hold p99, us",
        "writes/s",
        "reads/s",
        "reads beside a write",
        "sum",
        "errors",
    ]);
    for subject in measured(results, "readers") {
        let of = |figure| median(results, ("readers", subject.name, figure));
        let together = |figures: [&'static str; 3]| {
            Some(figures.map(|figure| of(figure).unwrap_or("-".to_owned())).join(" / "))
        };
        table.row([
            Some(subject.name.to_owned()),
            together(["write_wait_p50_us", "write_wait_p99_us", "write_wait_max_us"]),
            together(["wait_p50_us", "wait_p99_us", "wait_max_us"]),
            of("held_p99_us"),
            of("write_wait_beyond_p99_us"),
            of("writes_per_s"),
            of("reads_per_s"),
            of("overlaps"),
            sum(results, "readers", subject.name),
            of("errors"),
        ]);
    }
    table
}

fn batch(results: &Results) -> Table {
    let mut table = Table::new(&[
        "batch",
        "first to last reader inside, p50, us",
        "round trips",
        "p99, us",
        "writer's end to first reader, p50, us",
        "least of 24 inside at once",
        "reads beside a write",
        "errors",
    ]);
    for subject in measured(results, "batch") {
        let of = |figure| ("batch", subject.name, figure);
        table.row([
            Some(subject.name.to_owned()),
            with_spread(results, of("spread_p50_us")),
            results.ratio(of("spread_p50_us"), ROUND_TRIP).map(spread),
            median(results, of("spread_p99_us")),
            median(results, of("behind_p50_us")),
            median(results, of("least_inside")),
            median(results, of("overlaps")),
            median(results, of("errors")),
        ]);
    }
    table
}

const ROUND_TRIP: (&str, &str, &str) = ("ping-1ms", "raw-ping", "cycle_p50_us");

/// The figure, its goal, what was reached and whether that is enough.
type Goal = (&'static str, String, Option<(String, bool)>);

pub fn goals(results: &Results) -> Vec<Goal> {
    let cycle = |subject| ("kinds-1", subject, "cycle_p50_us");
    let at_most = |of, to, limit: f64| {
        let ratio = results.ratio(of, to);
        let reached = ratio.map(|ratio| (spread(ratio), ratio.median <= limit));
        (format!("<= {limit}"), reached)
    };
    let plain = cycle("redlock-guard");
    let (read_goal, read) = at_most(cycle("redlock-read"), plain, 1.2);
    let (keys_goal, keys) = at_most(cycle("redlock-2-keys"), plain, 1.3);
    let batch = ("batch", "redlock-read", "spread_p50_us");
    let (batch_goal, batch) = at_most(batch, ROUND_TRIP, 2.0);
    let beyond = results.median("readers", "redlock-read", "write_wait_beyond_p99_us");
    let hand_over = results.median("hand-over", "redlock", "passed_p50_us");
    let limit = hand_over.map(|passed| 2.0 * passed);
    let in_numbers = limit.map_or(String::new(), |limit| format!(" = {}", number(limit)));
    vec![
        ("read lock, 1 task, p50, of the plain one", read_goal, read),
        ("two keys of one slot, 1 task, p50, of one", keys_goal, keys),
        ("24 readers behind a writer: first to last, p50, round trips", batch_goal, batch),
        (
            "writer among 8 readers: wait beyond the longest hold that it met, p99, us",
            format!("<= two hand-overs (p50){in_numbers}"),
            limit.zip(beyond).map(|(limit, beyond)| (number(beyond), beyond <= limit)),
        ),
    ]
}
