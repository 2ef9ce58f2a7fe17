//! Models of the protocol, explored exhaustively: `proof/README.md` says what they prove.
//!
//! Each row of the table is one variant of one model. The exit code says whether all of them came
//! out as expected.

use std::io::{self, Write};
use std::process::ExitCode;

use check::{Case, Expected};

mod cases;
mod check;
mod exclusion;
mod fencing;
mod few;
mod guard_scheduler;
mod line;
mod ordered;
mod sharing;
mod waiting;

const HELP: &str = "\
Explores the models of the lock protocol, and compares what is found with what is expected.

usage: redlock-models [--full] [--steps] [FILTER]

  --full    also the larger bounds, for a nightly run
  --steps   print the steps to each counterexample
  FILTER    only rows that contain this text

Fails when a row differs from what is expected. What holds has to have the number of states that is
noted for it, and a filter has to leave a row.
";

#[derive(Default)]
struct Args {
    is_full: bool,
    shows_steps: bool,
    filter: Option<String>,
}

fn main() -> ExitCode {
    let mut args = Args::default();
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--full" => args.is_full = true,
            "--steps" => args.shows_steps = true,
            filter if !filter.starts_with('-') => args.filter = Some(arg),
            _ => return finish(&io::stdout().write_all(HELP.as_bytes()).map(|()| arg == "--help")),
        }
    }
    finish(&run(&args))
}

fn finish(result: &io::Result<bool>) -> ExitCode {
    if matches!(result, Ok(true)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs and prints row by row. Returns whether all is as expected.
fn run(args: &Args) -> io::Result<bool> {
    let mut out = io::stdout();
    let mut cases = cases::daily();
    if args.is_full {
        cases.extend(cases::larger());
    }
    if let Some(filter) = &args.filter {
        cases.retain(|case| format!("{} {}", case.model, case.variant).contains(filter));
    }
    let heads = ["model", "variant", "expected", "found", "states", "depth", "seconds", "bound"];
    writeln!(out, "{}", line(heads.map(str::to_owned)))?;
    let (mut total, mut differ) = (0, 0);
    for case in cases {
        let (states, is_right) = row(&mut out, case, args.shows_steps)?;
        total += states;
        differ += usize::from(!is_right);
    }
    writeln!(out, "{total} unique states; {differ} rows differ from what was expected")?;
    Ok(differ == 0 && total > 0)
}

/// Explores one variant. Returns how many states it has, and whether it came out as expected.
fn row(out: &mut impl Write, case: Case, shows_steps: bool) -> io::Result<(usize, bool)> {
    let (name, variant, expected) = (case.model.to_owned(), case.variant.to_owned(), case.expected);
    let bound = case.bound.clone();
    let found = case.run();
    let (states, depth) = (found.unique.to_string(), found.depth.to_string());
    let seconds = format!("{:.1}", found.took.as_secs_f64());
    let (said, is_right) = (expected.to_string(), found.is(expected));
    let verdict = found.to_string();
    writeln!(out, "{}", line([name, variant, said, verdict, states, depth, seconds, bound]))?;
    if shows_steps || !is_right {
        found.story().try_for_each(|step| writeln!(out, "    {step}"))?;
    }
    if !is_right {
        let noted = match expected {
            Expected::Holds(states) => format!(", {states} states"),
            Expected::Violates(property) => format!(": not so: {property}"),
        };
        writeln!(out, "    DIFFERS from what was expected: {expected}{noted}")?;
    }
    Ok((found.unique, is_right))
}

fn line([name, variant, expected, found, states, depth, seconds, bound]: [String; 8]) -> String {
    let outcome = format!("{expected:8} {found:19} {states:>10} {depth:>5} {seconds:>7}");
    format!("{name:15} {variant:42} {outcome}  {bound}")
}
