//! The command line.

use clap::Parser;
use clap::builder::RangedI64ValueParser as Range;

use crate::act::{ACTS, Act};

#[derive(Parser)]
#[command(bin_name = "cargo run --example inventory --", about = include_str!("about.txt"))]
#[command(after_help = "Exit code: 0 when acts 2 to 5 sold every unit exactly once (5: with \
    fencing) and act 6 lost none (with keys), 1 when they did not, 2 when the demo could not run. \
    NO_COLOR=1 turns colours off.")]
pub(crate) struct Options {
    /// Run only this act (1 to 6); may be given several times
    #[arg(long = "act", value_name = "N", value_parser = Range::<u8>::new().range(1..=6))]
    acts: Vec<u8>,
    /// 60 units and 200 customers in place of 300 and 1000
    #[arg(long)]
    quick: bool,
    /// Print one JSON object to stdout, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Worker processes (groups of tasks where there is no server)
    #[arg(long, default_value_t = 4, value_parser = Range::<u32>::new().range(2..=16))]
    pub(crate) procs: u32,
    /// Tasks of each process
    #[arg(long, default_value_t = 8, value_parser = Range::<u32>::new().range(1..=64))]
    pub(crate) tasks: u32,
    /// The server to use; without it a private one is started, or locks are kept in memory
    #[arg(long, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    pub(crate) redis_url: Option<String>,
}

impl Options {
    pub(crate) fn acts(&self) -> impl Iterator<Item = &'static Act> {
        ACTS.iter().filter(|act| self.acts.is_empty() || self.acts.contains(&act.number))
    }

    pub(crate) fn stock(&self) -> u32 {
        if self.quick { 60 } else { 300 }
    }

    /// Customers of each process. There are more than units, also without one process.
    pub(crate) fn share(&self) -> u32 {
        (if self.quick { 200 } else { 1000 }) / self.procs
    }

    pub(crate) fn customers(&self) -> u32 {
        self.share() * self.procs
    }
}

#[cfg(test)]
#[test]
fn customers_outnumber_the_stock_without_the_process_that_act_3_kills() {
    for procs in 2..=16 {
        let options = Options::parse_from(["inventory", "--quick", "--procs", &procs.to_string()]);
        assert!(options.share() * (procs - 1) > options.stock());
    }
}
