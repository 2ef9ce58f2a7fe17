//! Runs the library in real processes on real servers, does to them what can go wrong, and checks
//! what must hold all the same. `--help` says how.
#![allow(clippy::print_stdout, reason = "it reports to a terminal")]
#![allow(clippy::expect_used, reason = "a run that cannot go on shall end")]

mod arena;
mod calm;
mod checker;
mod fleet;
mod history;
mod inspector;
mod kind;
mod lock_kind;
mod log;
mod names;
mod parity;
mod plan;
mod report;
mod resource;
mod servers;
mod store;
mod topology;
mod wanted;
mod watched;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use fault_kit::process::{Role, block_on, play};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::calm::{Calm, Scene};
use crate::history::{Outcome, Size};
use crate::kind::Kind;
use crate::plan::{Guard, Plan, Precautions, Suffering};
use crate::topology::Topology;

const ROLES: &[(&str, Role)] = &[("worker", worker::work), ("calm", calm::load::work)];

/// Histories of real processes and servers under faults, checked exactly.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo run --example histories --")]
struct Options {
    /// How many histories, with the seeds `seed`, `seed + 1` and so on; topologies take turns.
    #[arg(long, default_value_t = 8)]
    histories: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How long the work of one history lasts, in milliseconds.
    #[arg(long, default_value_t = 3_500)]
    length_ms: u64,
    /// Faults of each history.
    #[arg(long, default_value_t = 13)]
    faults: usize,
    /// Worker processes of each history.
    #[arg(long, default_value_t = 8)]
    workers: usize,
    /// Histories side by side.
    #[arg(long, default_value_t = 2)]
    parallel: usize,
    /// Whether servers that restarted, were promoted or jumped in time are kept out for a while.
    #[arg(long, value_enum, default_value_t = Guard::On)]
    guard: Guard,
    /// How many replicas must have a lock before it counts, where there is a replica.
    #[arg(long, default_value_t = 0)]
    min_replicas: u32,
    /// These servers in place of all in turn; with `--parity`, in place of three.
    #[arg(long, value_enum)]
    topology: Option<Topology>,
    /// Faults of this kind and no other.
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// How many histories without faults, with the seeds `seed`, `seed + 1` and so on: callers of
    /// all kinds, and no key may be free for long while somebody waits for it. One of each
    /// scene by default, and none with `--only`.
    #[arg(long)]
    calm: Option<u64>,
    /// How long the work of one history without faults lasts, in milliseconds.
    #[arg(long, default_value_t = 2_500)]
    calm_ms: u64,
    /// In place of histories: so many fenced increments by three processes, which must be exact.
    #[arg(long)]
    parity: Option<u64>,
}

fn main() -> ExitCode {
    if play(ROLES) {
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    let start = Instant::now();
    let outcomes = block_on(async {
        if let Some(total) = options.parity {
            let topology = options.topology.unwrap_or(Topology::Three);
            return vec![parity::run(total, topology, options.seed, options.precautions()).await];
        }
        let mut outcomes = histories(&options).await;
        outcomes.extend(calm_histories(&options).await);
        outcomes
    });
    let is_good = report::print(&outcomes, |plan| options.replay(plan));
    println!("{} s", start.elapsed().as_secs());
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn histories(options: &Options) -> Vec<Outcome> {
    let size = Size { workers: options.workers, tasks: 2, keys: 5, length_ms: options.length_ms };
    let suffering = Suffering {
        count: options.faults,
        length_ms: options.length_ms,
        precautions: options.precautions(),
        topology: options.topology,
        only: options.only,
    };
    let run = |seed| {
        let plan = Plan::of(seed, suffering);
        let size = Size { length_ms: plan.topology.lasts_ms(options.length_ms), ..size };
        (plan.clone(), history::run(plan, size))
    };
    side_by_side(options, options.histories, run).await
}

/// They run by themselves, after the others: faults elsewhere must not slow them down.
async fn calm_histories(options: &Options) -> Vec<Outcome> {
    let all = if options.only.is_some() { 0 } else { Scene::ALL.len() as u64 };
    let run = |seed| {
        let calm = Calm::of(seed, options.topology);
        let run = calm::run::run(calm.clone(), calm.lasts_ms(options.calm_ms));
        (Plan::calm(calm), run)
    };
    side_by_side(options, options.calm.unwrap_or(all), run).await
}

/// So many histories, of which `run` makes each from its seed.
async fn side_by_side<F>(
    options: &Options,
    count: u64,
    run: impl Fn(u64) -> (Plan, F),
) -> Vec<Outcome>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(options.parallel));
    let mut running = JoinSet::new();
    for seed in options.seed..options.seed + count {
        let places = Arc::clone(&places);
        let (plan, run) = run(seed);
        running.spawn(async move {
            let _place = places.acquire_owned().await.expect("never closed");
            judged(plan, run).await
        });
    }
    let mut outcomes = running.join_all().await;
    outcomes.sort_by_key(|outcome| outcome.plan.seed);
    outcomes
}

/// A server that does not come back, say, must not end the other histories.
async fn judged(plan: Plan, run: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    let run = tokio::spawn(run);
    let outcome = run.await.unwrap_or_else(|panic| Outcome::broken(plan, &panic));
    eprintln!("{}", report::summary(&outcome));
    outcome
}

impl Options {
    fn precautions(&self) -> Precautions {
        Precautions { guard: self.guard, min_replicas: self.min_replicas }
    }

    /// The command that runs one of the histories again.
    fn replay(&self, plan: &Plan) -> String {
        let seed = plan.seed;
        let Options { length_ms, calm_ms, faults, workers, min_replicas, .. } = self;
        let work = match self.parity {
            Some(total) => format!("--parity {total}"),
            None if plan.calm.is_some() => {
                format!("--histories 0 --calm 1 --calm-ms {calm_ms}")
            }
            None => "--histories 1 --calm 0".to_owned(),
        };
        let guard = option("guard", Some(self.guard));
        let topology = option("topology", self.topology);
        let only = option("only", self.only);
        format!(
            "cargo run --release --example histories -- {work} \
             --seed {seed} --length-ms {length_ms} --faults {faults} --workers {workers} \
             --min-replicas {min_replicas}{guard}{topology}{only}"
        )
    }
}

fn option<T: ValueEnum>(name: &str, value: Option<T>) -> String {
    let value = value.and_then(|value| value.to_possible_value());
    value.map_or(String::new(), |value| format!(" --{name} {}", value.get_name()))
}
