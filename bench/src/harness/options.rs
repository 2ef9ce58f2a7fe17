//! The command line.

use std::path::{Path, PathBuf};

use clap::Parser;

/// Measures redlock beside the raw limit and beside other lock libraries, in turn, in several
/// rounds. Writes tables, plots and figures: performance.md, performance/*.svg and
/// performance/results.jsonl.
///
/// Servers are started on free ports. Go, Java with Maven, Node.js and Python are used where they
/// are there; what is missing is listed as not measured.
#[derive(Debug, Clone, Parser)]
#[command(name = "scripts/bench", max_term_width = 100)]
pub struct Options {
    /// One short round, to see that all works: 7 minutes. Its figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// Measure only these scenarios or subjects, by name; see --list. `open` names all scenarios
    /// that begin with it.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// How often everything is measured; the tables show medians [default: 3, with --quick 1].
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Where performance.md and performance/ are written [default: docs, or the target directory
    /// with --quick and --only, which would replace good figures by poor ones].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leases that one process holds at once; 0 leaves this measurement out. 1000000 takes a
    /// server with 400 MB and some minutes more.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub leases: u32,
    /// For how long they are held [default: 180, with --quick 20].
    #[arg(long, value_name = "S")]
    pub lease_seconds: Option<f64>,
    /// Print the names of scenarios and subjects, measure nothing.
    #[arg(long)]
    pub list: bool,
}

/// All scenarios whose names begin with it.
const GROUP: &str = "open";

/// Whether what was given to --only means the scenario or subject of this name.
pub fn names(only: &str, name: &str) -> bool {
    only == name || (only == GROUP && name.starts_with("open-"))
}

impl Options {
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    pub fn lease_seconds(&self) -> f64 {
        self.lease_seconds.unwrap_or(if self.quick { 20.0 } else { 180.0 })
    }

    /// For windows of time that --quick shortens.
    pub fn seconds(&self, seconds: f64) -> f64 {
        if self.quick { seconds / 2.0 } else { seconds }
    }

    pub fn out(&self, root: &Path, target: &Path) -> PathBuf {
        match &self.out {
            Some(out) => out.clone(),
            None if self.quick || !self.only.is_empty() => target.join("bench"),
            None => root.join("docs"),
        }
    }

    /// Whether `name` is to be measured; `kind` are all names of its kind.
    pub fn wants<'a>(&self, name: &str, kind: impl IntoIterator<Item = &'a str>) -> bool {
        let named = |name: &str| self.only.iter().any(|only| names(only, name));
        named(name) || !kind.into_iter().any(named)
    }
}
