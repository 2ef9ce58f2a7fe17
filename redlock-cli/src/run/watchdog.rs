//! The watchdog: a process that kills the command when redlock is killed, and when redlock stands
//! still (SIGSTOP, Ctrl-Z) until the lease is about to end. It also kills what has left the process
//! group of the command, as far as it finds that.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader as Reader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;

use super::descendants::{Descendants, send_all, with_variable};
use super::moment::Moment;
use super::process_table::{Process, row, rows};
use super::program::{self, Unready};
use super::refusal::OWNER;
use super::terminal;
use crate::failure;
use crate::output::{complain, complain_if_read, is_stderr_ready, say};
use crate::runtime;
use crate::signals::Signals;

/// The argument that names this role.
pub(super) const ROLE: &str = "internal-watchdog";

/// redlock comes first, if it is alive.
const DELAY: Duration = Duration::from_millis(20);
/// What the watchdog says to redlock.
const READY: &str = "ready\n";
const ENDED: &str = "ended\n";
/// How often the watchdog looks for processes that have left the group, and the pause between.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// A process that is on its way from one program to the next one is not found by its variables, so
/// that one look in vain is not enough.
const IN_VAIN: usize = 3;

/// The watchdog, as redlock knows it.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// The watchdog learns what to do by this pipe. Once it is closed, the watchdog kills what it
    /// watches.
    pipe: ChildStdin,
    said: Reader<ChildStdout>,
    is_gone: bool,
}

impl Watchdog {
    /// Starts it, and returns when it is ready. The command will have the owner of the lock among
    /// its variables. A watchdog that is not waited for to the end is killed.
    pub(super) async fn start(owner: &str) -> io::Result<Self> {
        let mut command = program::in_role(ROLE)?;
        command.env(OWNER, owner);
        // A group of its own: Ctrl-C and Ctrl-Z are not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(pipe), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the watchdog has no pipes"));
        };
        let unready = Unready::new(child);
        // A watchdog that is stopped must not hold redlock up.
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        let (mut said, mut word) = (Receiver::from_owned_fd(stdout.into())?, [0; READY.len()]);
        let is_ready = said.read_exact(&mut word).await.is_ok() && word == *READY.as_bytes();
        if !is_ready {
            return Err(io::Error::other("the watchdog did not start"));
        }
        unready.leave();
        let said = Reader::new(said.into_nonblocking_fd()?.into());
        Ok(Self { pipe, said, is_gone: false })
    }

    /// Watches this group from here on.
    pub(super) fn guard(&mut self, group: Pid) {
        self.tell(&format!("group {}", group.as_raw_nonzero()));
    }

    /// The group must be gone at this time. The lease goes on for longer than `margin` after it.
    pub(super) fn until(&mut self, until: Moment, margin: Duration) {
        self.tell(&format!("until {} {}", until.plus(DELAY).0, until.plus(margin).0));
    }

    /// Has the watchdog seen, while this process stood still, that the command had ended by itself
    /// before its lease did?
    pub(super) fn has_seen_end(&mut self) -> bool {
        let mut line = String::new();
        self.said.read_line(&mut line).is_ok() && line == ENDED
    }

    /// The command has ended by itself. What has left its group may go on.
    pub(super) fn after_command(&mut self) {
        self.tell("over");
    }

    /// The lock is lost. What has left the group ends as well, however the command ends.
    pub(super) fn after_loss(&mut self) {
        self.tell("lost");
    }

    /// No process of the group is left. Another one may have its id.
    pub(super) fn after_group(&mut self) {
        self.tell("empty");
    }

    /// redlock has killed the group in time: it need not be gone at any time.
    pub(super) fn after_kill(&mut self) {
        self.tell(&format!("until {0} {0}", Moment::NEVER.0));
    }

    /// There is nothing left to watch.
    pub(super) fn end(mut self) {
        self.tell("end");
    }

    fn tell(&mut self, order: &str) {
        let told = self.pipe.write_all(format!("{order}\n").as_bytes());
        // If the reader of stderr stands still, this is said later: the lease has to be watched.
        if told.is_err() && !self.is_gone && is_stderr_ready(Duration::ZERO) {
            self.is_gone = true;
            complain("the watchdog process is gone; do not stop or kill this redlock");
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Order {
    Guard(Pid),
    /// When the group must be gone, and from when on its lease may be over.
    Until(Moment, Moment),
    Over,
    Lost,
    Empty,
    End,
}

fn parse(line: &str) -> Option<Order> {
    match line.split_once(' ') {
        None if line == "over" => Some(Order::Over),
        None if line == "lost" => Some(Order::Lost),
        None if line == "empty" => Some(Order::Empty),
        None if line == "end" => Some(Order::End),
        Some(("group", id)) => Pid::from_raw(id.parse().ok()?).map(Order::Guard),
        Some(("until", moments)) => {
            let (until, latest) = moments.split_once(' ')?;
            Some(Order::Until(Moment(until.parse().ok()?), Moment(latest.parse().ok()?)))
        }
        _ => None,
    }
}

/// The watchdog's own life, until its exit code.
pub(super) fn watch() -> u8 {
    match runtime::block_on(obey()).flatten() {
        Ok(()) => 0,
        Err(error) => {
            complain_if_read(&format!("the watchdog failed: {error}"));
            failure::SYSTEM
        }
    }
}

async fn obey() -> io::Result<()> {
    // A supervisor that ends a whole service at once sends SIGTERM to this process, too. It ends
    // after redlock.
    let _handled = Signals::listen()?;
    terminal::use_from_background();
    let pipe = rustix::io::dup(io::stdin())?;
    let mut orders = BufReader::new(Receiver::from_owned_fd(pipe)?).lines();
    let mut charge = Charge::of_parent()?;
    say(READY)?;
    let (mut until, mut latest) = (Moment::NEVER, Moment::NEVER);
    loop {
        tokio::select! {
            biased;
            line = orders.next_line() => match line?.as_deref().map(parse) {
                Some(Some(Order::Guard(id))) => charge.group = Some(id),
                Some(Some(Order::Until(one, other))) => (until, latest) = (one, other),
                Some(Some(Order::Over)) => charge.stage = Stage::Ended,
                Some(Some(Order::Lost)) => charge.stage = Stage::Lost,
                Some(Some(Order::Empty)) => charge.is_group_empty = true,
                Some(Some(Order::End)) => return Ok(()),
                Some(None) => {}
                None => {
                    charge.kill("redlock was killed", || charge.marked()).await;
                    return Ok(());
                }
            },
            () = until.sleep() => if Moment::now() >= until {
                charge.note_end(latest);
                let why = "redlock stood still until its lease was about to end";
                charge.kill(why, || charge.below_redlock()).await;
                until = Moment::NEVER;
            },
        }
    }
}

/// How far the command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// It has ended by itself.
    Ended,
    /// Its lock is lost, and it is being ended.
    Lost,
}

/// What the watchdog kills.
#[derive(Debug)]
struct Charge {
    redlock: Option<Pid>,
    group: Option<Pid>,
    /// No process of the group is left, and another group may have its id.
    is_group_empty: bool,
    /// This process has seen that the command had ended, and redlock has not.
    has_seen_end: bool,
    stage: Stage,
    descendants: Option<Descendants>,
    /// The variable that the command, and what has come from it, were started with.
    variable: String,
}

impl Charge {
    fn of_parent() -> io::Result<Self> {
        let owner = std::env::var(OWNER).map_err(io::Error::other)?;
        let redlock = getppid();
        let descendants = redlock.map(Descendants::from_now);
        let variable = format!("{OWNER}={owner}");
        Ok(Self {
            redlock,
            group: None,
            is_group_empty: false,
            has_seen_end: false,
            stage: Stage::Running,
            descendants,
            variable,
        })
    }

    /// All processes below redlock; once redlock has ended, those with the variable.
    fn below_redlock(&self) -> BTreeSet<Process> {
        let descendants = self.descendants.as_ref().filter(|_| getppid() == self.redlock);
        descendants.map_or_else(|| self.marked(), Descendants::living)
    }

    /// Once redlock has ended, the processes below it have other parents, and only the variable in
    /// their environment tells them. A redlock that was started below this one has the variable as
    /// well; the watchdog of that one does not have it, and ends its command.
    fn marked(&self) -> BTreeSet<Process> {
        with_variable(&self.variable, getpid())
    }

    /// Notes what a redlock that stands still has not seen: that the command has ended by itself,
    /// before the lease did at `latest`. Nothing else reaps it.
    fn note_end(&mut self, latest: Moment) {
        let is_running = getppid() == self.redlock && self.stage == Stage::Running;
        let leader = self.group.filter(|_| is_running);
        let leader = leader.and_then(|group| row(group.as_raw_nonzero().get()));
        if leader.is_some_and(|leader| leader.is_over) && Moment::now() < latest {
            (self.stage, self.has_seen_end) = (Stage::Ended, true);
            // redlock reads it when it goes on.
            let _ = say(ENDED);
        }
    }

    /// Has the command left processes in its group? If redlock stands still, those that have ended
    /// are still in the table, and count as gone. The others are stopped first: they must not work
    /// on while the whole table is read.
    fn has_rest(group: Pid) -> bool {
        let _ = kill_process_group(group, Signal::STOP);
        let id = group.as_raw_nonzero().get();
        rows().into_iter().any(|row| row.group == id && row.process.id != id && !row.is_over)
    }

    /// Kills the group; and what has left it, unless the command has ended by itself.
    async fn kill(&self, why: &str, find: impl Fn() -> BTreeSet<Process>) {
        let Some(group) = self.group else { return };
        // After the signal, those that it has ended look like those that ended by themselves.
        let is_at_work = !self.is_group_empty && (!self.has_seen_end || Self::has_rest(group));
        let is_killed = !self.is_group_empty && kill_process_group(group, Signal::KILL).is_ok();
        if self.stage != Stage::Ended {
            kill_all(find).await;
        }
        // It comes last, as the reader of stderr may stand still for a while.
        if is_killed && is_at_work {
            let rest = if self.stage == Stage::Ended { "what is left of " } else { "" };
            complain_if_read(&format!("{why}; {rest}the command was killed"));
        }
    }
}

/// Kills what is found, until nothing is found.
async fn kill_all(find: impl Fn() -> BTreeSet<Process>) {
    let mut in_vain = 0;
    for _ in 0..LOOKS {
        let found = find();
        in_vain = if found.is_empty() { in_vain + 1 } else { 0 };
        if in_vain == IN_VAIN {
            return;
        }
        // What belongs to another user stays.
        let _ = send_all(&found, Signal::KILL);
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn what_has_ended_by_itself_is_no_rest() {
        let member = |program: &[&str], group: i32| {
            let mut command = std::process::Command::new(program[0]);
            command.args(&program[1..]).process_group(group).spawn().unwrap()
        };
        let mut leader = member(&["sleep", "60"], 0);
        let group = Pid::from_child(&leader);
        let mut ended = member(&["true"], group.as_raw_nonzero().get());
        let id = Pid::from_child(&ended).as_raw_nonzero().get();
        while !row(id).unwrap().is_over {
            std::thread::yield_now();
        }
        assert!(!Charge::has_rest(group), "it is not reaped yet");
        let mut rest = member(&["sleep", "60"], group.as_raw_nonzero().get());
        assert!(Charge::has_rest(group));
        let stopped = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        let is_stopped = || waitpid(Some(Pid::from_child(&rest)), stopped).unwrap().is_some();
        let given_up = Instant::now() + Duration::from_secs(30);
        while !is_stopped() && Instant::now() < given_up {
            std::thread::yield_now();
        }
        assert!(Instant::now() < given_up, "it works while the table is read");
        kill_process_group(group, Signal::KILL).unwrap();
        for child in [&mut leader, &mut ended, &mut rest] {
            child.wait().unwrap();
        }
    }

    #[test]
    fn orders_are_understood() {
        assert_eq!(parse("group 17"), Pid::from_raw(17).map(Order::Guard));
        assert_eq!(parse("until 5 7"), Some(Order::Until(Moment(5), Moment(7))));
        assert_eq!(parse("over"), Some(Order::Over));
        assert_eq!(parse("lost"), Some(Order::Lost));
        assert_eq!(parse("empty"), Some(Order::Empty));
        assert_eq!(parse("end"), Some(Order::End));
        for line in ["", "group", "group x", "group 0", "until -1", "until 5", "until 5 x", "end 1"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
