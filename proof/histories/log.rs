//! What a process writes down while it works: one line an event, one `write` a moment, so that a
//! SIGKILL loses at most what was about to be written.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::lock_kind::LockKind;

/// Nanoseconds of the clock that the library goes by, on Linux, where histories are played. All
/// processes of a machine share it.
pub(crate) type Moment = u64;

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

pub(crate) fn now() -> Moment {
    let time = clock_gettime(CLOCK);
    let parts = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    let (Ok(secs), Ok(nanos)) = parts else { unreachable!("the clock counts from the boot") };
    secs * 1_000_000_000 + nanos
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// One call that wants a lock: `<process>.<task>/<number>`. Each key of a call that wants
    /// several has an attempt of its own: `<call>&1` and so on.
    pub attempt: String,
    pub at: Moment,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The call begins; nothing of it has been sent.
    Begin { key: String, kind: LockKind },
    /// The call begins, and waits for so long at most. A call for several keys writes this once,
    /// for all of them.
    Waits { ms: u64 },
    /// The call wants so many keys together, with such a lease.
    Together { keys: usize, expire_ms: u64 },
    /// The call begins, and is to turn the hold of this attempt into one of a reader.
    Downgrade { from: String },
    /// The body begins, under this fencing token.
    Granted { fencing: u64 },
    /// The body is polled. The deadline is what the lease says; `None`: it says that it is over.
    Step { deadline: Option<Moment> },
    /// There is no body: a guard is kept, and its lease says that it is over.
    Lapsed,
    /// On the servers, a key was looked for when the body had begun. What is wrong, if anything.
    Found { wrong: Option<String> },
    /// The body has read what writers write a second time. What is wrong with it, if anything.
    View { wrong: Option<String> },
    /// The body is gone: done, stopped or cancelled. A release is sent after this, never before.
    Over,
    /// The call ended without a body that is done.
    Failed { why: String },
    /// The release that follows the body was answered; what it found, or why it failed.
    Released { found: String },
    /// From here on the caller does not poll its call.
    Stalled,
    /// The caller polls its call again.
    Resumed,
    /// A process, which stands in the place of the attempt, has done all of its work, and a client
    /// of it holds so many locks.
    Kept { locks: usize },
    /// The parent freezes a process, which stands in the place of the attempt.
    Frozen,
    /// It goes on.
    Thawed,
    /// The parent kills a process, which stands in the place of the attempt.
    Killed,
    /// The parent deletes the key of a lock.
    Gone { key: String },
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.attempt, self.at)?;
        match &self.event {
            Event::Begin { key, kind } => write!(f, "begin {key}{kind}"),
            Event::Waits { ms } => write!(f, "waits {ms}"),
            Event::Together { keys, expire_ms } => write!(f, "together {keys} {expire_ms}"),
            Event::Downgrade { from } => write!(f, "downgrade {from}"),
            Event::Granted { fencing } => write!(f, "granted {fencing}"),
            Event::Step { deadline } => write!(f, "step {}", deadline.unwrap_or(0)),
            Event::Lapsed => write!(f, "lapsed -"),
            Event::Found { wrong } => write!(f, "found {}", wrong.as_deref().unwrap_or("-")),
            Event::View { wrong } => write!(f, "view {}", wrong.as_deref().unwrap_or("-")),
            Event::Over => write!(f, "over -"),
            Event::Failed { why } => write!(f, "failed {why}"),
            Event::Released { found } => write!(f, "released {found}"),
            Event::Stalled => write!(f, "stalled -"),
            Event::Resumed => write!(f, "resumed -"),
            Event::Kept { locks } => write!(f, "kept {locks}"),
            Event::Frozen => write!(f, "frozen -"),
            Event::Thawed => write!(f, "thawed -"),
            Event::Killed => write!(f, "killed -"),
            Event::Gone { key } => write!(f, "gone {key}"),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Line, String> {
        let bad = || format!("not a line of a log: {text:?}");
        let mut words = text.splitn(4, ' ');
        let mut word = || words.next().ok_or_else(bad);
        let (attempt, at, name, rest) = (word()?, word()?, word()?, word()?);
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
        let wrong = |text: &str| Some(text.to_owned()).filter(|text| text != "-");
        let event = match name {
            "begin" => {
                let (key, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                Event::Begin { key: key.to_owned(), kind: kind.parse().map_err(|()| bad())? }
            }
            "waits" => Event::Waits { ms: number(rest)? },
            "together" => {
                let (keys, expire_ms) = rest.split_once(' ').ok_or_else(bad)?;
                let keys = keys.parse().map_err(|_| bad())?;
                Event::Together { keys, expire_ms: number(expire_ms)? }
            }
            "downgrade" => Event::Downgrade { from: rest.to_owned() },
            "granted" => Event::Granted { fencing: number(rest)? },
            "step" => Event::Step { deadline: Some(number(rest)?).filter(|&at| at > 0) },
            "lapsed" => Event::Lapsed,
            "found" => Event::Found { wrong: wrong(rest) },
            "view" => Event::View { wrong: wrong(rest) },
            "over" => Event::Over,
            "failed" => Event::Failed { why: rest.to_owned() },
            "released" => Event::Released { found: rest.to_owned() },
            "stalled" => Event::Stalled,
            "resumed" => Event::Resumed,
            "kept" => Event::Kept { locks: rest.parse().map_err(|_| bad())? },
            "frozen" => Event::Frozen,
            "thawed" => Event::Thawed,
            "killed" => Event::Killed,
            "gone" => Event::Gone { key: rest.to_owned() },
            _ => return Err(bad()),
        };
        Ok(Line { attempt: attempt.to_owned(), at: number(at)?, event })
    }
}

/// The lines of a file; what a killed process left without an end of line is not one.
pub(crate) fn parse(text: &str) -> Vec<Line> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| line.parse().unwrap_or_else(|error| panic!("{error}"));
    whole.lines().map(parse).collect()
}

/// The lines of all logs in a directory.
pub(crate) fn read_all(dir: &Path) -> Vec<Line> {
    let entries = std::fs::read_dir(dir).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|ext| ext == "log"));
    let text = |path| std::fs::read_to_string(path).expect("a log can be read");
    logs.flat_map(|path| parse(&text(path))).collect()
}

/// A log that one process appends to.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(path: &Path) -> Log {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Log(file.expect("the log can be opened"))
    }

    pub(crate) fn write(&self, attempt: &str, at: Moment, event: Event) {
        self.write_all([(attempt, event)], at);
    }

    /// What happens at one moment, with one `write`: all of it or nothing is in the log.
    pub(crate) fn write_all<'a>(
        &self,
        events: impl IntoIterator<Item = (&'a str, Event)>,
        at: Moment,
    ) {
        let line = |(attempt, event): (&str, Event)| {
            format!("{}\n", Line { attempt: attempt.to_owned(), at, event })
        };
        let lines: String = events.into_iter().map(line).collect();
        (&self.0).write_all(lines.as_bytes()).expect("the log can be written");
    }
}
