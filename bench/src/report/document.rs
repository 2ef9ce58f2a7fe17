//! Puts the figures between the markers of performance.md, beside the plots and the JSON file.

use std::fs;
use std::path::Path;

use super::goals::goals;
use super::plot::{Bar, BarKind, Plot};
use super::table::Table;
use super::tables;
use super::{kinds, open};
use crate::Failure;
use crate::harness::{Results, Role, SUBJECTS};

const BEGIN: &str = "<!-- generated: scripts/bench -->";
const END: &str = "<!-- end of what is generated -->";

pub fn write(results: &Results, root: &Path, out: &Path) -> Result<(), Failure> {
    let place = out.join("performance");
    fs::create_dir_all(&place)?;
    fs::write(place.join("results.jsonl"), results.lines()?)?;
    let mut images = Vec::new();
    for (name, plot) in plots(results) {
        fs::write(place.join(format!("{name}.svg")), plot.svg())?;
        images.push(format!("![{}](performance/{name}.svg)\n", plot.title));
    }
    let text = fs::read_to_string(root.join("docs/performance.md"))?;
    let (before, rest) = text.split_once(BEGIN).ok_or("performance.md has no marker")?;
    let (_, after) = rest.split_once(END).ok_or("performance.md has no second marker")?;
    let generated = generated(results, &images);
    fs::write(out.join("performance.md"), format!("{before}{BEGIN}\n\n{generated}\n{END}{after}"))?;
    Ok(())
}

const FAR: &str = "A proxy holds each message back, on its way there and back. Its timers have a \
                   grain of 1 ms, so that messages take longer than asked for; a round trip is \
                   that of `PING` through the same proxy.\n\n";

fn generated(results: &Results, images: &[String]) -> String {
    let machine = &results.machine;
    let tools = machine.tools.iter().map(|(name, version)| format!("{name}: {version}"));
    let tools = tools.collect::<Vec<_>>().join(", ");
    let rounds =
        if results.rounds == 1 { "1 round" } else { &format!("{} rounds", results.rounds) };
    let mut text = format!(
        "Measured on {} with `{}` at {}: {rounds}, {} cores of {} ({}), {}, Linux {}; {tools}.\n",
        machine.date,
        machine.command,
        machine.commit,
        machine.cores,
        machine.cpu,
        machine.placement,
        machine.memory,
        machine.kernel
    );
    let mut section = |title: &str, about: &str, tables: Vec<Table>| {
        let tables: Vec<_> =
            tables.iter().filter(|table| !table.is_empty()).map(Table::markdown).collect();
        if !tables.is_empty() {
            text.extend(["\n### ", title, "\n\n", about, &tables.join("\n")]);
        }
    };
    section("Goals", "", vec![goals(results)]);
    section(
        "Uncontended",
        "",
        vec![
            tables::one_task(results),
            tables::many_tasks(results, "uncontended-64"),
            tables::many_tasks(results, "uncontended-1024"),
        ],
    );
    section("Kinds of locks", &(kinds::TEXT.to_owned() + "\n"), kinds::tables(results));
    let hot = ["hot-3-tasks", "hot-3-processes", "hot-3x8", "crowd"];
    section("A hot key", "", hot.map(|scenario| tables::hot(results, scenario)).into());
    section("Hand-over between two processes", "", vec![tables::latency(results)]);
    let far = ["0.5ms", "2ms"].map(|delay| tables::far(results, delay));
    section("Behind a delay", FAR, far.into());
    section("Waiting while nothing changes", "", vec![tables::idle(results)]);
    section("Open loop", &(open::TEXT.to_owned() + "\n"), open::tables(results));
    section("What only redlock was measured for", "", vec![tables::single(results)]);
    section("Who was measured", "", vec![tables::subjects(results)]);
    if !images.is_empty() {
        text.extend(["\n### Plots\n\n", &images.join("\n")]);
    }
    text
}

/// Name of the file, title, subtitle, scenario, figure, logarithmic.
type Drawing = (&'static str, &'static str, &'static str, &'static str, &'static str, bool);

const DRAWINGS: &[Drawing] = &[
    (
        "uncontended-1",
        "Acquire and release, one task",
        "p50 of a cycle in microseconds, shorter is better",
        "uncontended-1",
        "cycle_p50_us",
        false,
    ),
    (
        "uncontended-64",
        "Acquire and release, 64 tasks on 64 keys",
        "cycles a second, longer is better",
        "uncontended-64",
        "cycles_per_s",
        false,
    ),
    (
        "hot-3-tasks",
        "A hot key, 3 tasks of one process",
        "hand-overs a second (the lock changes its owner), logarithmic, longer is better",
        "hot-3-tasks",
        "hand_overs_per_s",
        true,
    ),
    (
        "hot-3-processes",
        "A hot key, 3 processes",
        "hand-overs a second, logarithmic, longer is better",
        "hot-3-processes",
        "hand_overs_per_s",
        true,
    ),
    (
        "hot-3x8",
        "A hot key, 3 processes with 8 tasks each",
        "hand-overs a second, logarithmic, longer is better",
        "hot-3x8",
        "hand_overs_per_s",
        true,
    ),
    (
        "hot-3x8-wait",
        "The longest wait, 3 processes with 8 tasks each",
        "microseconds, logarithmic, shorter is better",
        "hot-3x8",
        "wait_max_us",
        true,
    ),
    (
        "open-50-1ms-3",
        "Arrivals by chance in 3 processes, half of the load, bodies of 1 ms",
        "p99 of the wait in microseconds, logarithmic, shorter is better",
        "open-50-1ms-3",
        "wait_p99_us",
        true,
    ),
];

fn plots(results: &Results) -> Vec<(&'static str, Plot)> {
    let plots = DRAWINGS.iter().filter_map(|(name, title, subtitle, scenario, figure, is_log)| {
        let bars = SUBJECTS.iter().filter_map(|subject| {
            let kind = match subject.role {
                Role::Ours
                | Role::Variant
                | Role::Kind
                | Role::Topology
                | Role::Valkey
                | Role::Memory => BarKind::Ours,
                Role::Raw | Role::Perfect => BarKind::Raw,
                _ => BarKind::Peer,
            };
            let value = results.median(scenario, subject.name, figure)?;
            Some(Bar { name: subject.name.to_owned(), value, kind })
        });
        // A pipeline of one task is not what anyone else does.
        let bars = bars.filter(|bar| *scenario != "uncontended-1" || bar.name != "raw-pipelined");
        let mut bars: Vec<_> = bars.collect();
        bars.sort_by(|a, b| b.value.total_cmp(&a.value));
        if subtitle.contains("shorter") {
            bars.reverse();
        }
        (!bars.is_empty()).then_some((*name, Plot { title, subtitle, is_log: *is_log, bars }))
    });
    plots.collect()
}
