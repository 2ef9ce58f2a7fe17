//! Other processes: the program under test runs itself again, in a role.
//!
//! The child tells what happens on standard output, one event a line; the parent waits for
//! events with a bound. A child dies with its parent, however that ends.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::clock::Clock;
use crate::dir::Dir;
use crate::patience::patient;
use crate::supervise::{Exit, Supervised};

const ROLE: &str = "REDLOCK_TEST_ROLE";
const ARGS: &str = "REDLOCK_TEST_ARGS";
/// libtest writes lines of its own; this marks ours.
const MARK: &str = "@@ ";
/// The path of the test that becomes the child's main function.
const ENTRY: &str = "roles::child_entry";
const AS_TEST: [&str; 5] = ["--exact", ENTRY, "--nocapture", "--quiet", "--test-threads=1"];
const EVENT_BOUND: Duration = Duration::from_secs(60);

/// What a child does. It ends when the function returns; a panic is exit code 101.
pub type Role = fn(&Args);

/// The words given to `Process::spawn`.
#[derive(Debug)]
pub struct Args(Vec<String>);

impl Args {
    /// An argument as text; fails the role if there is none.
    pub fn get(&self, n: usize) -> &str {
        self.0.get(n).unwrap_or_else(|| panic!("the role needs an argument {n}: {:?}", self.0))
    }

    /// All of them.
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// An argument as a number, say.
    pub fn parse<T: std::str::FromStr>(&self, n: usize) -> T {
        let parsed = self.get(n).parse();
        parsed.unwrap_or_else(|_| panic!("argument {n} is not good: {:?}", self.get(n)))
    }
}

/// A child process in a role; killed on drop.
#[derive(Debug)]
pub struct Process {
    role: String,
    child: Supervised,
    /// Dropped after the child that writes into it.
    dir: Dir,
    lines: UnboundedReceiver<String>,
}

impl Process {
    /// For a test binary: it has a test `roles::child_entry`, whose body is `play(ROLES)`.
    pub fn spawn(role: &str, args: &[&str]) -> Process {
        Process::start(&AS_TEST, role, args, None)
    }

    /// The same with a wall clock that is off by so many seconds, as on another machine.
    pub fn spawn_with_clock_off(secs: i64, role: &str, args: &[&str]) -> Process {
        Process::start(&AS_TEST, role, args, Some(secs))
    }

    /// For a program of any other kind: `main` begins with `if play(ROLES) { return; }`.
    pub fn spawn_program(role: &str, args: &[&str]) -> Process {
        Process::start(&[], role, args, None)
    }

    fn start(flags: &[&str], role: &str, args: &[&str], clock_off: Option<i64>) -> Process {
        assert!(args.iter().all(|arg| !arg.contains('\n')), "one line per argument: {args:?}");
        let dir = Dir::new("process");
        let stderr = File::create(dir.path().join("stderr")).expect("stderr has a file");
        let binary = std::env::current_exe().expect("this binary has a path");
        let flags: Vec<_> = flags.iter().map(OsString::from).collect();
        let mut envs = vec![(ROLE.to_owned(), role.to_owned()), (ARGS.to_owned(), args.join("\n"))];
        if let Some(secs) = clock_off {
            let clock = Clock::new(dir.path());
            clock.shift(secs);
            envs.extend(clock.envs());
        }
        let (child, mut stdout) =
            Supervised::spawn(dir.path(), binary.as_os_str(), &flags, &envs, Stdio::from(stderr));
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while matches!(stdout.read_line(&mut line), Ok(1..)) {
                if let Some((_, event)) = line.trim_end().split_once(MARK) {
                    let _ = sender.send(event.to_owned());
                }
                line.clear();
            }
        });
        Process { role: role.to_owned(), dir, child, lines }
    }

    /// The process id, also after its end.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits for an event with this first word and gives the rest of its line. Events before it
    /// are passed over; fails the test after fifteen seconds.
    pub async fn event(&mut self, name: &str) -> String {
        self.event_within(EVENT_BOUND, name).await
    }

    /// The same with another bound.
    pub async fn event_within(&mut self, bound: Duration, name: &str) -> String {
        let mut passed = Vec::new();
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                let (first, rest) = line.split_once(' ').unwrap_or((&line, ""));
                if first == name {
                    return Some(rest.to_owned());
                }
                passed.push(line);
            }
            None
        };
        let why = match patient(bound, wait).await {
            Some(Some(rest)) => return rest,
            Some(None) => "it ended".to_owned(),
            None => format!("{bound:?} passed"),
        };
        let (role, stderr) = (&self.role, self.stderr());
        panic!("{role}: no event {name:?}: {why}; it said {passed:?} and on stderr:\n{stderr}");
    }

    /// The events that have come in and were not waited for; never blocks.
    pub fn events(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }

    /// What the child has written to standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// SIGKILL; returns once the child is reaped.
    pub fn sigkill(&mut self) -> Exit {
        self.child.kill9()
    }

    /// SIGSTOP: nothing in the child runs, its sockets stay open.
    pub fn sigstop(&mut self) {
        self.child.freeze();
    }

    /// SIGCONT.
    pub fn sigcont(&mut self) {
        self.child.thaw();
    }

    /// Waits until the child ends by itself; fails the test after `bound`.
    pub async fn wait(&mut self, bound: Duration) -> Exit {
        let exit = self.child.wait(bound).await;
        exit.unwrap_or_else(|| panic!("{} still runs after {bound:?}", self.role))
    }
}

/// For roles: tells the parent.
pub fn emit(event: &str) {
    let mut stdout = std::io::stdout().lock();
    let told = writeln!(stdout, "{MARK}{event}").and_then(|()| stdout.flush());
    // A parent that is gone does not listen.
    drop(told);
}

/// For roles: runs a future on a runtime with several threads.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// Plays the role that the environment names; false if it names none, in the parent.
pub fn play(roles: &[(&str, Role)]) -> bool {
    let Ok(name) = std::env::var(ROLE) else { return false };
    let args = std::env::var(ARGS).unwrap_or_default();
    let args = Args(args.split('\n').map(str::to_owned).collect());
    let role = roles.iter().find(|(known, _)| *known == name);
    let (_, role) = role.unwrap_or_else(|| panic!("no role {name:?} in the table of roles"));
    role(&args);
    true
}
