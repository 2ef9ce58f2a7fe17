//! What was to be reached, and whether it was.

use super::number::{number, spread};
use super::table::Table;
use super::tables::sum;
use super::{kinds, open, tables};
use crate::harness::{Program, Results, Role, SUBJECTS};

const OURS: &str = "redlock";
const AWAITED: &str = "redlock-await";

/// Workers are served equally: the least served gets nine tenths of what the most served gets.
const EQUAL: f64 = 0.9;

struct Row {
    reached: String,
    is_met: bool,
}

/// One median against a bound; `None` where it was not measured.
fn bound(value: Option<f64>, is_met: impl Fn(f64) -> bool) -> Option<Row> {
    value.map(|value| Row { reached: number(value), is_met: is_met(value) })
}

pub fn goals(results: &Results) -> Table {
    let mut table = Table::new(&["figure", "goal", "reached", "met"]);
    let untyped = open::goals(results).into_iter().chain(kinds::goals(results));
    let open = untyped.map(|(figure, goal, reached)| {
        (figure, goal, reached.map(|(reached, is_met)| Row { reached, is_met }))
    });
    let closed = uncontended(results).into_iter().chain(far(results)).chain(hot(results));
    let all = closed.chain(open).chain(others(results));
    for (figure, goal, row) in all {
        let (reached, met) = match row {
            Some(row) => (row.reached, if row.is_met { "yes" } else { "**no**" }),
            None => ("not measured".to_owned(), "-"),
        };
        table.row([figure, &goal, &reached, met].map(|cell| Some(cell.to_owned())));
    }
    table
}

type Goal = (&'static str, String, Option<Row>);

/// The best of the peers that were measured: the least or the largest figure.
fn best_peer(results: &Results, scenario: &str, figure: &str, is_less: bool) -> Option<f64> {
    let peers = SUBJECTS.iter().filter(|subject| subject.role == Role::Peer);
    let values = peers.filter_map(|peer| results.median(scenario, peer.name, figure));
    values.reduce(if is_less { f64::min } else { f64::max })
}

fn uncontended(results: &Results) -> Vec<Goal> {
    let one = |subject| ("uncontended-1", subject, "cycle_p50_us");
    let ratio = |of, to, limit: f64| {
        let ratio = results.ratio(of, to)?;
        Some(Row { reached: spread(ratio), is_met: ratio.median <= limit })
    };
    let mut goals = vec![
        (
            "uncontended cycle, 1 task, p50, of `raw-set`",
            "<= 0.65".to_owned(),
            ratio(one(OURS), one("raw-set"), 0.65),
        ),
        (
            "the same with `release = \"await\"`, of `raw-scripts`",
            "<= 1.15".to_owned(),
            ratio(one(AWAITED), one("raw-scripts"), 1.15),
        ),
    ];
    let peer = best_peer(results, "uncontended-1", "cycle_p50_us", true);
    for (figure, ours, part) in
        [("its p50, us", OURS, 0.7), ("the same with `release = \"await\"`, us", AWAITED, 1.05)]
    {
        let ours = results.median("uncontended-1", ours, "cycle_p50_us");
        let limit = peer.map(|peer| peer * part);
        goals.push((
            figure,
            format!("<= {part} x the best peer's{}", in_numbers(limit)),
            limit.and_then(|limit| bound(ours, |ours| ours <= limit)),
        ));
    }
    for (figure, ahead, scenario) in [
        ("cycles/s, 64 tasks, of the ceiling", "cycles/s, 64 tasks", "uncontended-64"),
        ("cycles/s, 1,024 tasks, of the ceiling", "cycles/s, 1,024 tasks", "uncontended-1024"),
    ] {
        let rate = |subject| (scenario, subject, "cycles_per_s");
        let part = results.ratio(rate(OURS), rate("raw-pipelined"));
        let part = part.map(|part| Row { reached: spread(part), is_met: part.median >= 0.7 });
        goals.push((figure, ">= 0.7".to_owned(), part));
        let peer = best_peer(results, scenario, "cycles_per_s", false);
        let ours = results.median(scenario, OURS, "cycles_per_s");
        let limit = peer.map(|peer| peer * 1.2);
        goals.push((
            ahead,
            format!(">= 1.2 x the best peer's{}", in_numbers(limit)),
            limit.and_then(|limit| bound(ours, |ours| ours >= limit)),
        ));
    }
    goals.push(client_cpu(results, "CPU of the client, us a cycle, 1 task", "uncontended-1"));
    goals.push(client_cpu(results, "the same with 64 tasks", "uncontended-64"));
    let server = |subject| ("uncontended-64", subject, "server_cpu_us");
    goals.push((
        "CPU of the server a cycle, 64 tasks, of `raw-set`",
        "<= 1.5".to_owned(),
        ratio(server(OURS), server("raw-set"), 1.5),
    ));
    goals
}

/// Round trips of a call and of a hand-over where messages take long.
fn far(results: &Results) -> Vec<Goal> {
    let rows = [
        ("a call behind 0.5 ms each way, round trips", "far-1-0.5ms", "cycle_p50_us"),
        ("the same behind 2 ms", "far-1-2ms", "cycle_p50_us"),
        ("a hand-over behind 0.5 ms each way, round trips", "far-hand-over-0.5ms", "passed_p50_us"),
        ("the same behind 2 ms", "far-hand-over-2ms", "passed_p50_us"),
    ];
    let goal = |(name, scenario, figure)| {
        let trips = tables::round_trips(results, (scenario, OURS, figure));
        let row = trips.map(|trips| Row { reached: spread(trips), is_met: trips.median <= 1.15 });
        (name, "<= 1.15".to_owned(), row)
    };
    rows.map(goal).into()
}

/// Compared with peers of the same language only.
fn client_cpu(results: &Results, figure: &'static str, scenario: &str) -> Goal {
    let cpu = |subject| results.median(scenario, subject, "client_cpu_us");
    let is_rust_peer = |name: &&str| {
        let mut subjects = SUBJECTS.iter().filter(|subject| subject.name == *name);
        subjects.any(|one| one.role == Role::Peer && one.program == Program::Own)
    };
    let names = SUBJECTS.iter().map(|subject| subject.name).filter(is_rust_peer);
    let best = names.filter_map(cpu).reduce(f64::min);
    let goal =
        best.map_or("the best Rust peer's".to_owned(), |best| format!("<= {}", number(best)));
    let row = best.and_then(|best| bound(cpu(OURS), |ours| ours <= best));
    (figure, goal, row)
}

fn hot(results: &Results) -> Vec<Goal> {
    let figure = |scenario, figure| results.median(scenario, OURS, figure);
    let redisson = |scenario, figure| results.median(scenario, "redisson", figure);
    let (tasks, processes, both) = ("hot-3-tasks", "hot-3-processes", "hot-3x8");
    let rate = "hand_overs_per_s";
    let best = best_peer(results, tasks, rate, false);
    let wanted = best.map_or(300_000.0, |best| (best * 50.0).min(300_000.0));
    // So many times more than Redisson, or so small a part of its wait.
    let more = |scenario, name, times: f64| -> Goal {
        let limit = redisson(scenario, rate).map(|rate| rate * times);
        let goal = format!(">= {times} x Redisson{}", in_numbers(limit));
        (name, goal, limit.and_then(|limit| bound(figure(scenario, rate), |own| own >= limit)))
    };
    let sooner = |scenario, name, part: f64, words: &str| -> Goal {
        let wait = "wait_p99_us";
        let limit = redisson(scenario, wait).map(|wait| wait * part);
        let goal = format!("{words} Redisson's{}", in_numbers(limit));
        (name, goal, limit.and_then(|limit| bound(figure(scenario, wait), |own| own <= limit)))
    };
    let share = |scenario, name, of| -> Goal {
        (name, format!(">= {EQUAL}"), bound(figure(scenario, of), |share| share >= EQUAL))
    };
    let commands = |scenario, name| -> Goal {
        let scripts = figure(scenario, "scripts_per_hand_over");
        let publishes = figure(scenario, "publishes_per_hand_over");
        // Who takes the lock again before another one has come pays for a cycle, too.
        let cycle = figure(scenario, "scripts").map_or(String::new(), number);
        let row = scripts.zip(publishes).map(|(scripts, publishes)| Row {
            reached: format!(
                "{}, {} (scripts a cycle: {cycle})",
                number(scripts),
                number(publishes)
            ),
            // Renewals and the first acquire come on top.
            is_met: scripts <= 2.05 && publishes <= 1.05,
        });
        (name, "<= 2, <= 1".to_owned(), row)
    };
    vec![
        (
            "hot key, 3 tasks, hand-overs/s",
            format!(">= {} (50 x the best peer, at most 300,000)", number(wanted)),
            bound(figure(tasks, rate), |own| own >= wanted),
        ),
        share(tasks, "hot key, 3 tasks, share of workers", "share_of_workers"),
        more(processes, "hot key, 3 processes, hand-overs/s", 2.0),
        sooner(processes, "hot key, 3 processes, p99 wait, us", 1.0 / 3.0, "<= 1/3 of"),
        share(processes, "hot key, 3 processes, share", "share_of_processes"),
        commands(processes, "its scripts and publishes a hand-over"),
        commands("crowd", "the same with 100 waiting clients"),
        more(both, "hot key, 3 processes x 8 tasks, hand-overs/s", 20.0),
        sooner(both, "hot key, 3 x 8, p99 wait, us", 1.0, "below"),
        share(both, "hot key, 3 x 8, share of processes", "share_of_processes"),
    ]
}

fn in_numbers(limit: Option<f64>) -> String {
    limit.map_or(String::new(), |limit| format!(" = {}", number(limit)))
}

fn others(results: &Results) -> Vec<Goal> {
    let latency = ("hand-over", OURS, "passed_p50_us");
    let latency = results.ratio(latency, ("ping-1ms", "raw-ping", "cycle_p50_us"));
    let latency = latency.map(|part| Row { reached: spread(part), is_met: part.median <= 2.5 });
    let exact = ["exact-3-tasks", "exact-3-processes", "exact-3x8"].map(|scenario| {
        let series = results.series(scenario, OURS)?;
        let mut rounds = series.rounds.iter().flatten();
        let all = rounds.all(|figures| figures.get("counter") == Some(&30_000.0));
        Some(all && sum(results, scenario, OURS)? == "exact")
    });
    let exact = exact.iter().copied().collect::<Option<Vec<_>>>().map(|exact| Row {
        reached: if exact.iter().all(|&is| is) { "exact" } else { "wrong sums" }.to_owned(),
        is_met: exact.iter().all(|&is| is),
    });
    let leases = |figure| results.median("leases", "redlock-leases", figure);
    let at_most = |value, limit: f64| (format!("<= {limit}"), bound(value, |value| value <= limit));
    let compile = |name| ("compile", "compile", name);
    let compile = results.ratio(compile("redlock_user_s"), compile("instrument_user_s"));
    let compile = compile.map(|part| Row { reached: spread(part), is_met: part.median <= 1.0 });
    let mut goals: Vec<Goal> = vec![
        ("hand-over between processes, p50, round trips", "<= 2.5".to_owned(), latency),
        ("30,000 increments: 3 tasks, 3 processes, 3 x 8", "exact".to_owned(), exact),
    ];
    let idle = results.median("idle", OURS, "scripts_per_s");
    let reentry = |figure| results.median("re-entry", "redlock-reentry", figure);
    for (figure, (goal, row)) in [
        // Each of three processes looks once a second, in case a message was lost.
        ("99 idle waiters in 3 processes, scripts/s", at_most(idle, 3.0)),
        ("held leases of 30 s, lost", at_most(leases("lost"), 0.0)),
        ("their client CPU, % of a core", at_most(leases("client_cpu_percent"), 5.0)),
        ("their server CPU, % of a core", at_most(leases("server_cpu_percent"), 3.0)),
        ("client memory, bytes a lease", at_most(leases("bytes_per_lease"), 512.0)),
        ("re-entered call, ns", at_most(reentry("ns_per_call"), 200.0)),
        // The lease of the outer call may be renewed meanwhile.
        ("its scripts a call", at_most(reentry("scripts"), 0.001)),
    ] {
        goals.push((figure, goal, row));
    }
    goals.push(("`cargo check`, 500 functions, of `instrument`'s", "<= 1".to_owned(), compile));
    goals
}
