//! Runs single tests: without a mutant, to see which mutants each reaches, and with one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::{process, runtime, time};

use crate::{Options, chooser};

/// How much longer than alone, and at least, a test may take with a mutant in it.
const PATIENCE: (u32, Duration) = (8, Duration::from_secs(15));

/// The tests of one program.
#[derive(Debug)]
pub struct Suite {
    program: PathBuf,
    directory: PathBuf,
    /// Where the tests put their files.
    scratch: PathBuf,
    /// In the order in which they are asked.
    tests: Vec<Test>,
    /// What one mutant may cost.
    budget: Duration,
    /// How many run side by side.
    jobs: usize,
}

#[derive(Debug)]
struct Test {
    name: String,
    took: Duration,
    reaches: BTreeSet<usize>,
}

/// What the tests said of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// By this test.
    Caught(String),
    /// This test did not end.
    Hung(String),
    /// By so many tests that reach it, with so many more left out.
    Missed { tried: usize, left_out: usize },
    /// No test reaches it.
    Unreached,
}

impl Verdict {
    pub fn is_missed(&self) -> bool {
        matches!(self, Self::Missed { .. } | Self::Unreached)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    TooLate,
}

impl Suite {
    /// Runs each test of `program` once, alone, in `directory`. Left out are those that fail, and
    /// those whose names the options skip.
    pub fn new(program: PathBuf, directory: PathBuf, options: &Options) -> Self {
        let scratch = std::env::temp_dir().join(format!("redlock-mutants-{}", std::process::id()));
        fs::create_dir_all(&scratch).expect("a directory");
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let jobs = options.jobs.unwrap_or_else(cores);
        let budget = Duration::from_secs(options.budget);
        let mut suite = Self { program, directory, scratch, tests: Vec::new(), budget, jobs };
        let is_skipped = |name: &String| options.skip.iter().any(|part| name.contains(part));
        let names: Vec<_> = suite.names().into_iter().filter(|name| !is_skipped(name)).collect();
        let tests = Mutex::new(Vec::new());
        side_by_side(jobs, names.len(), |index| {
            if let Some(test) = suite.measure(&names[index], index) {
                tests.lock().expect("no test panics").push(test);
            }
        });
        suite.tests = tests.into_inner().expect("no test panics");
        suite.tests.sort_by_key(|test| test.took);
        if options.slow {
            suite.tests.reverse();
        }
        suite
    }

    pub fn len(&self) -> usize {
        self.tests.len()
    }

    /// What the tests say of each of `mutants`.
    pub fn judge(
        &self,
        mutants: &[usize],
        tell: impl Fn(usize, &Verdict) + Sync,
    ) -> BTreeMap<usize, Verdict> {
        let verdicts = Mutex::new(BTreeMap::new());
        side_by_side(self.jobs, mutants.len(), |index| {
            let verdict = self.verdict(mutants[index]);
            tell(mutants[index], &verdict);
            verdicts.lock().expect("no test panics").insert(mutants[index], verdict);
        });
        verdicts.into_inner().expect("no test panics")
    }

    fn verdict(&self, mutant: usize) -> Verdict {
        let reaching: Vec<_> =
            self.tests.iter().filter(|test| test.reaches.contains(&mutant)).collect();
        let mut cost = Duration::ZERO;
        for (tried, test) in reaching.iter().enumerate() {
            cost += test.took;
            if tried > 0 && cost > self.budget {
                return Verdict::Missed { tried, left_out: reaching.len() - tried };
            }
            let bound = (test.took * PATIENCE.0).max(PATIENCE.1);
            let run = || self.run(&test.name, bound, &[(chooser::CHOSEN, mutant.to_string())]);
            match run() {
                Ended::Passed => {}
                Ended::TooLate => return Verdict::Hung(test.name.clone()),
                // Once more: a test on a busy machine may fail by itself.
                Ended::Failed => match run() {
                    Ended::Passed => {}
                    _ => return Verdict::Caught(test.name.clone()),
                },
            }
        }
        match reaching.len() {
            0 => Verdict::Unreached,
            tried => Verdict::Missed { tried, left_out: 0 },
        }
    }

    fn names(&self) -> Vec<String> {
        let mut command = self.command();
        let output = command.args(["--list", "--format", "terse"]).stdout(Stdio::piped()).output();
        let output = output.expect("the tests can be run");
        let lines = String::from_utf8_lossy(&output.stdout);
        lines.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    }

    fn measure(&self, name: &str, index: usize) -> Option<Test> {
        let file = self.scratch.join(format!("reached-{index}"));
        let path = file.to_string_lossy().into_owned();
        let start = Instant::now();
        let ended = self.run(name, Duration::from_mins(5), &[(chooser::REACHED, path)]);
        let took = start.elapsed();
        let numbers = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        if ended != Ended::Passed {
            eprintln!("{name} fails without a mutant and is left out: {ended:?}");
            return None;
        }
        let reaches = numbers.lines().filter_map(|number| number.parse().ok()).collect();
        Some(Test { name: name.to_owned(), took, reaches })
    }

    fn run(&self, name: &str, bound: Duration, environment: &[(&str, String)]) -> Ended {
        let mut command = self.command();
        command.args([name, "--exact"]).envs(environment.iter().map(|(key, value)| (key, value)));
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("the system has one more").block_on(async {
            let mut child = process::Command::from(command).spawn().expect("the tests can be run");
            match time::timeout(bound, child.wait()).await {
                Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => Ended::Passed,
                Ok(_) => Ended::Failed,
                Err(_) => {
                    child.kill().await.expect("it is our child");
                    Ended::TooLate
                }
            }
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.directory)
            .env("TMPDIR", &self.scratch)
            .env_remove(chooser::CHOSEN)
            .env_remove(chooser::REACHED)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Calls `work` with each number below `count`, on `jobs` threads.
fn side_by_side(jobs: usize, count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    work(index);
                }
            });
        }
    });
}
