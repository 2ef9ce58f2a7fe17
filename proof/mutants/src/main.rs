//! Breaks the runtime in every place where cargo-mutants would, and lists what no test notices.
//! All mutants are compiled into one program, and the environment chooses one: a mutant costs the
//! tests that reach it, no build. `--help` says how.

mod build;
mod chooser;
mod graft;
mod list;
mod report;
mod text;
mod tree;
mod trial;

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::build::{Target, Tree};
use crate::report::Report;
use crate::trial::Suite;

/// Breaks the runtime in one place after the other, and lists what its tests do not notice.
#[derive(Debug, Parser)]
struct Options {
    /// Files or globs below redlock-runtime/src; all without any.
    files: Vec<String>,
    /// The unit tests only; otherwise what they miss is given to the tests on real servers.
    #[arg(long)]
    lib: bool,
    /// The tests on real servers only.
    #[arg(long, conflicts_with = "lib")]
    it: bool,
    /// Only mutants that this file names, say, the output of an earlier run: those it calls missed.
    #[arg(long)]
    missed_in: Option<PathBuf>,
    /// What one mutant may cost, in seconds: the tests that come last are left out.
    #[arg(long, default_value_t = 60)]
    budget: u64,
    /// The slowest tests come first, for what the quick ones have missed; otherwise the quickest.
    #[arg(long)]
    slow: bool,
    /// Tests at a time; without this, one for each core. Those on real servers mostly wait.
    #[arg(long)]
    jobs: Option<usize>,
    /// Tests with this in their names are left out.
    #[arg(long)]
    skip: Vec<String>,
    /// Where everything is put.
    #[arg(long, default_value = "target/mutants")]
    output: PathBuf,
}

fn main() {
    let options = Options::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the project is there");
    let output = root.join(&options.output);
    let mut mutants = list::mutants(&root, &options.files);
    if let Some(file) = &options.missed_in {
        let earlier = std::fs::read_to_string(file).expect("--missed-in can be read");
        mutants.retain(|mutant| report::is_missed_in(&earlier, &mutant.name));
    }
    let copy = output.join("tree");
    tree::copy(&root, &copy);
    let mut tree = Tree::new(&copy, &output.join("build"), &mutants);

    let targets: &[Target] = match (options.lib, options.it) {
        (true, _) => &[Target::Lib],
        (_, true) => &[Target::It],
        _ => &[Target::Lib, Target::It],
    };
    let mut report = Report::new(&mutants);
    for target in targets {
        let program = tree.build(*target);
        report.compile(tree.alive());
        let missed = report.missed();
        if missed.is_empty() {
            break;
        }
        let suite = Suite::new(program, target.home(&copy), &options);
        println!("{} tests judge {} of {} mutants", suite.len(), missed.len(), mutants.len());
        let verdicts = suite.judge(&missed, |mutant, verdict| report.tell(mutant, verdict));
        report.add(verdicts);
    }
    report.print();
}
