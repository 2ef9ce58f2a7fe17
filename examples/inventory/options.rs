//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::act::Act;

/// What the user asked for.
#[derive(Debug, Clone, Parser)]
#[command(name = "inventory", bin_name = "cargo run --example inventory --")]
#[command(about = ABOUT, after_help = AFTER)]
pub(crate) struct Options {
    /// Run only this act (1 to 5); may be given several times
    #[arg(long = "act", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    acts: Vec<u8>,

    /// Fewer units and customers: about 7 seconds instead of 12
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print one JSON object to stdout, and nothing else
    #[arg(long)]
    pub(crate) json: bool,

    /// Worker processes (groups of tasks where there is no server)
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(2..=16))]
    pub(crate) procs: u16,

    /// Tasks of each process
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) tasks: u16,

    /// Units in stock [default: 300, with --quick 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(30..=100_000))]
    stock: Option<u32>,

    /// Customers, shared out among the processes [default: 1000, with --quick 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(60..=1_000_000))]
    customers: Option<u32>,

    /// The server to use; without it a private one is started, or locks are kept in memory
    #[arg(long, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    pub(crate) redis_url: Option<String>,

    /// Where to write the report; the database of each act is kept beside it
    #[arg(long, value_name = "PATH", default_value = "target/inventory-report.html")]
    pub(crate) report: PathBuf,
}

const ABOUT: &str = "\
Sells a limited stock to too many customers at once: without a lock, with #[redis_lock], and with
everything going wrong that can go wrong to the holder of a lock.

Acts:
  1  no lock
  2  #[redis_lock]
  3  the holder's process is killed
  4  a task hangs
  5  a holder is frozen for longer than its lease: without, then with a fencing token";

const AFTER: &str = "\
Exit code: 0 when acts 2 to 5 sold every unit exactly once (5: with fencing), 1 when they did not,
2 when the demo could not run. NO_COLOR=1 turns colours off.";

impl Options {
    pub(crate) fn acts(&self) -> Vec<Act> {
        let is_chosen = |act: &Act| self.acts.is_empty() || self.acts.contains(&act.number());
        Act::ALL.into_iter().filter(is_chosen).collect()
    }

    pub(crate) fn procs(&self) -> usize {
        self.procs.into()
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.into()
    }

    pub(crate) fn stock(&self) -> u32 {
        self.stock.unwrap_or(if self.quick { 60 } else { 300 })
    }

    pub(crate) fn customers(&self) -> u32 {
        self.customers.unwrap_or(if self.quick { 200 } else { 1000 })
    }

    /// Customers of process `proc`: an equal share.
    pub(crate) fn share(&self, proc: usize) -> u32 {
        let procs = u32::from(self.procs);
        let extra = usize::try_from(self.customers() % procs).is_ok_and(|extra| proc < extra);
        self.customers() / procs + u32::from(extra)
    }

    /// Are there enough customers for the whole stock, though one process may be killed?
    pub(crate) fn check(&self) -> Result<(), String> {
        let least = self.customers() - self.share(0);
        if least > self.stock() {
            return Ok(());
        }
        Err(format!(
            "{} customers are too few: act 3 kills one of {} processes, and the {least} customers \
             of the others must outnumber the {} units in stock",
            self.customers(),
            self.procs,
            self.stock()
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Options {
        Options::try_parse_from([&["inventory"], args].concat()).unwrap()
    }

    #[test]
    fn all_customers_are_shared_out() {
        let options = parse(&["--procs", "3", "--customers", "1000"]);
        assert_eq!((0..3).map(|proc| options.share(proc)).sum::<u32>(), 1000);
        assert_eq!(options.share(0), 334);
    }

    #[test]
    fn act_five_has_two_zombies() {
        assert_eq!(parse(&["--act", "5", "--act", "2"]).acts().len(), 3);
        assert_eq!(parse(&[]).acts().len(), 6);
        assert!(Options::try_parse_from(["inventory", "--act", "6"]).is_err());
    }

    #[test]
    fn too_few_customers_are_refused_with_numbers() {
        assert!(parse(&[]).check().is_ok());
        let error = parse(&["--procs", "2", "--customers", "600"]).check().unwrap_err();
        assert!(error.contains("300 customers") && error.contains("300 units"), "{error}");
    }
}
