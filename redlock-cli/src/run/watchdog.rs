//! The watchdog: a process that kills the command when redlock is killed, and when redlock stands
//! still (SIGSTOP, Ctrl-Z) until the lease is about to end.

use std::io::{self, BufRead, BufReader as Reader, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;

use super::moment::Moment;
use super::{program, terminal};
use crate::failure;
use crate::output::{complain, is_stderr_ready, say};
use crate::signals::Signals;

/// The argument that names this role.
pub(super) const ROLE: &str = "internal-watchdog";

/// redlock comes first, if it is alive.
const DELAY: Duration = Duration::from_millis(20);
const READY: &str = "ready\n";

/// The end of the pipe by which the watchdog learns what to do. Once it is closed, the watchdog
/// kills what it watches.
#[derive(Debug)]
pub(super) struct Watchdog {
    pipe: ChildStdin,
    is_gone: bool,
}

impl Watchdog {
    /// Starts it, and returns when it is ready.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = program::in_role(ROLE)?;
        // A group of its own: Ctrl-C and Ctrl-Z are not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(pipe), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the watchdog has no pipes"));
        };
        let mut line = String::new();
        Reader::new(stdout).read_line(&mut line)?;
        if line != READY {
            return Err(io::Error::other("the watchdog did not start"));
        }
        // A watchdog that is stopped must not hold redlock up.
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Self { pipe, is_gone: false })
    }

    /// Watches this group from here on.
    pub(super) fn guard(&mut self, group: Pid) {
        self.tell(&format!("group {}", group.as_raw_nonzero()));
    }

    /// The group must be gone at this time.
    pub(super) fn until(&mut self, until: Moment) {
        self.tell(&format!("until {}", until.plus(DELAY).0));
    }

    /// redlock has killed the group in time: it need not be gone at any time.
    pub(super) fn after_kill(&mut self) {
        self.tell(&format!("until {}", Moment::NEVER.0));
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
    Until(Moment),
    End,
}

fn parse(line: &str) -> Option<Order> {
    match line.split_once(' ') {
        None if line == "end" => Some(Order::End),
        Some(("group", id)) => Pid::from_raw(id.parse().ok()?).map(Order::Guard),
        Some(("until", nanos)) => Some(Order::Until(Moment(nanos.parse().ok()?))),
        _ => None,
    }
}

/// The watchdog's own life, until its exit code.
pub(super) fn watch() -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(obey())) {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("the watchdog failed: {error}"));
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
    say(READY)?;
    let (mut group, mut until) = (None, Moment::NEVER);
    loop {
        tokio::select! {
            biased;
            line = orders.next_line() => match line?.as_deref().map(parse) {
                Some(Some(Order::Guard(id))) => group = Some(id),
                Some(Some(Order::Until(moment))) => until = moment,
                Some(Some(Order::End)) => return Ok(()),
                Some(None) => {}
                None => {
                    kill(group, "redlock was killed");
                    return Ok(());
                }
            },
            () = until.sleep() => if Moment::now() >= until {
                kill(group, "redlock stood still until its lease was about to end");
                until = Moment::NEVER;
            },
        }
    }
}

fn kill(group: Option<Pid>, why: &str) {
    let Some(group) = group else { return };
    if kill_process_group(group, Signal::KILL).is_ok() {
        complain(&format!("{why}; the command was killed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood() {
        assert_eq!(parse("group 17"), Pid::from_raw(17).map(Order::Guard));
        assert_eq!(parse("until 5"), Some(Order::Until(Moment(5))));
        assert_eq!(parse("end"), Some(Order::End));
        for line in ["", "group", "group x", "group 0", "until -1", "end 1"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
