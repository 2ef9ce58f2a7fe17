//! The command and its process group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, test_kill_process_group,
    wait, waitpid,
};

use super::{gate, program};
use crate::failure;

/// A process group of its own; its leader is the command.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    exit: Option<Exit>,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Code(u8),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The exit code: 128 + n for signal n.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => failure::of_signal(number),
        }
    }
}

/// What happened to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A signal stopped it.
    Stopped(i32),
    /// It is over.
    Exited(Exit),
}

impl Group {
    /// Starts the process that will become the command, and returns when it stands at its gate.
    pub(super) fn at_gate(words: &[OsString], envs: &[(&str, String)]) -> io::Result<Self> {
        adopt_orphans();
        let mut command = program::in_role(gate::ROLE)?;
        command.arg(getpid().as_raw_nonzero().to_string()).args(words);
        command.envs(envs.iter().map(|(name, value)| (name, value)));
        let child = command.process_group(0).spawn()?;
        let mut group = Self { id: Pid::from_child(&child), exit: None };
        let wait = || waitpid(Some(group.id), WaitOptions::UNTRACED);
        let status = rustix::io::retry_on_intr(wait)?;
        match status.and_then(|(_, status)| group.note(status)) {
            Some(Change::Stopped(_)) => Ok(group),
            other => Err(io::Error::other(format!("the command was not started: {other:?}"))),
        }
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// How the command ended, if it is over.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Sends a signal to all processes of the group. It is not an error if there are none.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.id, signal) {
            Err(Errno::SRCH) if self.exit.is_some() => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// Has the command ended, and left no process of its group behind? A process that has ended
    /// counts until it is reaped: [`Self::change`] has to come first.
    pub(super) fn is_empty(&self) -> bool {
        self.exit.is_some() && test_kill_process_group(self.id) == Err(Errno::SRCH)
    }

    /// What has happened since this was asked last. Reaps every child of this process that has
    /// ended: nothing else waits for the watchdog, nor for orphans.
    pub(super) fn change(&mut self) -> io::Result<Option<Change>> {
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        loop {
            let change = match rustix::io::retry_on_intr(|| wait(options)) {
                Ok(Some((id, status))) if id == self.id => self.note(status),
                Ok(Some(_)) => None,
                Ok(None) => return Ok(None),
                // There are no children left.
                Err(Errno::CHILD) if self.exit.is_some() => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            if change.is_some() {
                return Ok(change);
            }
        }
    }

    /// What a status of the command says.
    fn note(&mut self, status: WaitStatus) -> Option<Change> {
        if let Some(signal) = status.stopping_signal().filter(|_| status.stopped()) {
            return Some(Change::Stopped(signal));
        }
        let code = status.exit_status().map(|code| u8::try_from(code).unwrap_or(u8::MAX));
        let exit = code.map(Exit::Code).or(status.terminating_signal().map(Exit::Signal))?;
        self.exit = Some(exit);
        Some(Change::Exited(exit))
    }
}

/// Makes this process the parent of every process below it whose own parent ends. Otherwise they
/// go to process 1, which reaps late or never where it is not an init system (in a container), and
/// an orphan that has ended would look like a process that the command has left behind.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Elsewhere process 1 reaps.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn adopt_orphans() {}
