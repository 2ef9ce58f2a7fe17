//! Measures redlock beside the raw limit and beside other lock libraries: `scripts/bench`.
//!
//! The program is two in one: the harness, and the worker process that the harness starts for each
//! measurement. Workers in other languages are in `bench/peers`; all speak the same protocol
//! (`plan.rs`): they say `ready`, wait for `go`, work for a while, and print one line of JSON.

mod harness;
mod histogram;
mod monotonic;
mod plan;
mod report;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use harness::Options;

/// Figures of workers are JSON on standard output; whatever goes wrong is told on standard error.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match (arguments.next().as_deref(), arguments.next()) {
        (Some("worker"), Some(plan)) => worker::run(&plan),
        _ => harness::run(&Options::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
