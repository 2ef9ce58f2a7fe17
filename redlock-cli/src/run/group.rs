//! The command and its process group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, test_kill_process_group, waitpgid,
    waitpid,
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
        let mut command = program::in_role(gate::ROLE)?;
        command.arg(getpid().as_raw_nonzero().to_string()).args(words);
        command.envs(envs.iter().map(|(name, value)| (name, value)));
        let child = command.process_group(0).spawn()?;
        let mut group = Self { id: Pid::from_child(&child), exit: None };
        match group.wait(WaitOptions::UNTRACED)? {
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

    /// Sends a signal to all processes of the group. It is no error if there are none.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.id, signal) {
            Err(Errno::SRCH) if self.exit.is_some() => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// Has the command ended, and left no process of its group behind?
    pub(super) fn is_empty(&self) -> bool {
        if self.exit.is_none() {
            return false;
        }
        // The first process of a container is the parent of those that were left behind.
        while matches!(waitpgid(self.id, WaitOptions::NOHANG), Ok(Some(_))) {}
        test_kill_process_group(self.id) == Err(Errno::SRCH)
    }

    /// What has happened since this was asked last.
    pub(super) fn change(&mut self) -> io::Result<Option<Change>> {
        if self.exit.is_some() {
            return Ok(None);
        }
        self.wait(WaitOptions::UNTRACED | WaitOptions::NOHANG)
    }

    fn wait(&mut self, options: WaitOptions) -> io::Result<Option<Change>> {
        let status = loop {
            match waitpid(Some(self.id), options) {
                Err(Errno::INTR) => {}
                status => break status?,
            }
        };
        let Some((_, status)) = status else { return Ok(None) };
        if let Some(signal) = status.stopping_signal().filter(|_| status.stopped()) {
            return Ok(Some(Change::Stopped(signal)));
        }
        let code = status.exit_status().map(|code| u8::try_from(code).unwrap_or(u8::MAX));
        let exit = code.map(Exit::Code).or(status.terminating_signal().map(Exit::Signal));
        self.exit = exit;
        Ok(exit.map(Change::Exited))
    }
}
