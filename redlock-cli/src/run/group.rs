//! The command and its process group.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getpid, kill_process,
    kill_process_group, test_kill_process_group, wait, waitid, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::gate;
use super::moment::Moment;
use super::process_table::{Process, Row, rows};
use super::program::{self, Unready};
use crate::ending::End;
use crate::failure;

/// How often it is asked whether the process stands at its gate, where no signal tells.
const LOOK: Duration = Duration::from_millis(100);
/// How often the table of processes is read for a group that may have nothing but processes that
/// have ended: that takes long.
const READ: Duration = Duration::from_millis(50);

/// A process group of its own; its leader is the command.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    exit: Option<Exit>,
    /// No process was left. Another group may have the id from then on.
    is_gone: bool,
    /// When the table of processes was read last.
    read: Option<Moment>,
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

    /// How redlock ends after its command. A signal ends both if redlock got it, and also if the
    /// terminal sent it to the command, which had the keyboard.
    pub(super) fn to_end(self, had_terminal: bool, asked_to_end: &[Signal]) -> End {
        let Self::Signal(number) = self else { return End::Code(self.code()) };
        match Signal::from_named_raw(number) {
            // What the terminal sends to the command does not come to redlock.
            Some(signal) if asked_to_end.contains(&signal) => End::Signal(signal),
            Some(signal @ (Signal::INT | Signal::QUIT)) if had_terminal => End::SignalOfJob(signal),
            _ => End::Code(self.code()),
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
    /// Starts the process that will become the command, and returns when it stands at its gate. One
    /// that is not waited for to the end is killed.
    pub(super) async fn at_gate(words: &[OsString], envs: &[(&str, String)]) -> io::Result<Self> {
        adopt_orphans();
        let mut command = program::in_role(gate::ROLE)?;
        command.arg(getpid().as_raw_nonzero().to_string()).args(words);
        command.envs(envs.iter().map(|(name, value)| (name, value)));
        let mut news = signal(SignalKind::child())?;
        let child = command.process_group(0).spawn()?;
        let mut group =
            Self { id: Pid::from_child(&child), exit: None, is_gone: false, read: None };
        let unready = Unready::new(child);
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        let change = loop {
            let status = rustix::io::retry_on_intr(|| waitpid(Some(group.id), options))?;
            if let Some(change) = status.and_then(|(_, status)| group.note(status)) {
                break change;
            }
            // The signal may be blocked.
            let _ = timeout(LOOK, news.recv()).await;
        };
        unready.leave();
        match change {
            Change::Stopped(_) => Ok(group),
            Change::Exited(exit) => {
                Err(io::Error::other(format!("the command was not started: {exit:?}")))
            }
        }
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Has the process not become the command yet? Only Linux tells.
    pub(super) fn is_at_gate(&self) -> bool {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        let redlock = getpid().to_string();
        words.next() == Some(gate::ROLE.as_bytes()) && words.next() == Some(redlock.as_bytes())
    }

    /// How the command ended, if it is over.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Is the command over, reaped or not, without having been killed meanwhile? A process that was
    /// killed and is not reaped may be one that the watchdog ended.
    pub(super) fn has_ended_by_itself(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = || waitid(WaitId::Pid(self.id), options).ok().flatten();
        let killed = Some(Signal::KILL.as_raw());
        self.exit.is_some() || ended().is_some_and(|status| status.terminating_signal() != killed)
    }

    /// Sends a signal to all processes of the group, and to the command where it has gone into
    /// another group. It is not an error if there are none.
    pub(super) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.is_gone {
            return Ok(());
        }
        let sent = kill_process_group(self.id, signal);
        self.is_gone = self.is_none(sent);
        if self.is_gone {
            return Ok(());
        }
        // Until it is reaped, no other process has its id.
        if self.exit.is_none() && getpgid(Some(self.id)).is_ok_and(|group| group != self.id) {
            let sent = if sent == Err(Errno::SRCH) { Ok(()) } else { sent };
            return Ok(sent.and(kill_process(self.id, signal))?);
        }
        Ok(sent?)
    }

    /// Has the command ended, and left no process of its group behind? Where there is no table of
    /// processes, one that has ended counts until it is reaped. [`Self::change`] has to come first.
    pub(super) fn is_empty(&mut self) -> bool {
        self.is_gone = self.is_gone
            || self.is_none(test_kill_process_group(self.id))
            || self.exit.is_some() && self.has_only_ended();
        self.is_gone
    }

    /// Have all processes of the group ended, and wait for a parent that may never reap them? One
    /// look at the table can miss a process that is started meanwhile. The next look finds that one
    /// in any case, as this process reaps nothing between the two.
    fn has_only_ended(&mut self) -> bool {
        let now = Moment::now();
        if self.read.is_some_and(|read| now < read.plus(READ)) {
            return false;
        }
        self.read = Some(now);
        let ended = self.ended();
        ended.is_some() && ended == self.ended()
    }

    /// The processes of the group, if there are any, and if all of them have ended.
    fn ended(&self) -> Option<BTreeSet<Process>> {
        let group = self.id.as_raw_nonzero().get();
        let members = rows().into_iter().filter(|row| row.group == group);
        let members: Option<BTreeSet<_>> =
            members.map(|row| row.is_over.then_some(row.process)).collect();
        members.filter(|members| !members.is_empty())
    }

    /// Is a process of the group left that could be killed, and has not ended yet, as it waits for
    /// a disk? One of another user cannot be killed.
    pub(super) fn has_dying(&self) -> bool {
        let group = self.id.as_raw_nonzero().get();
        let of_group = |row: &Row| row.group == group && !row.is_over;
        rows().into_iter().filter(of_group).any(|row| row.process.may_be_killed())
    }

    /// Does the outcome of a signal show that no process of the group is left?
    fn is_none(&self, sent: Result<(), Errno>) -> bool {
        self.exit.is_some() && sent == Err(Errno::SRCH)
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_that_was_empty_gets_no_signal_any_more() {
        let start = || Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let (mut first, mut other) = (start(), start());
        let exit = Some(Exit::Code(0));
        let mut group = Group { id: Pid::from_child(&first), exit, is_gone: false, read: None };
        assert!(!group.is_empty());
        group.signal(Signal::KILL).unwrap();
        first.wait().unwrap();
        group.signal(Signal::TERM).unwrap();
        // Its id is in use again.
        group.id = Pid::from_child(&other);
        group.signal(Signal::KILL).unwrap();
        let is_gone = group.is_empty();
        let status = waitid(
            WaitId::Pid(group.id),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
        );
        let is_alive = status.unwrap().is_none();
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_alive && is_gone);
    }

    /// No process is left in the group that it was started in.
    #[test]
    fn a_command_that_has_left_its_group_gets_signals() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut group =
            Group { id: Pid::from_child(&child), exit: None, is_gone: false, read: None };
        let sent = [Signal::STOP, Signal::TERM, Signal::CONT].map(|one| group.signal(one).is_ok());
        // Otherwise a signal that did not arrive would be waited for.
        let is_told = sent == [true; 3];
        if !is_told {
            child.kill().unwrap();
        }
        let ended = child.wait().unwrap();
        assert!(is_told, "{sent:?}");
        assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn a_signal_ends_both_if_it_was_for_both() {
        let exit = |signal: Signal| Exit::Signal(signal.as_raw());
        let (int, term) = (Signal::INT, Signal::TERM);
        assert_eq!(Exit::Code(130).to_end(true, &[int]), End::Code(130));
        assert_eq!(exit(int).to_end(true, &[]), End::SignalOfJob(int));
        assert_eq!(exit(int).to_end(true, &[int]), End::Signal(int));
        assert_eq!(exit(int).to_end(false, &[]), End::Code(130));
        assert_eq!(exit(int).to_end(false, &[term, int]), End::Signal(int));
        assert_eq!(exit(term).to_end(true, &[]), End::Code(143));
        assert_eq!(exit(term).to_end(true, &[term]), End::Signal(term));
        assert_eq!(exit(Signal::KILL).to_end(true, &[term]), End::Code(137));
    }

    #[test]
    fn a_command_ends_by_itself_unless_it_is_killed() {
        let ended = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let id = Pid::from_child(&child);
            waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
            let group = |exit| Group { id, exit, is_gone: false, read: None };
            let found = group(None).has_ended_by_itself();
            let exit = Exit::Signal(Signal::KILL.as_raw());
            assert!(group(Some(exit)).has_ended_by_itself(), "noted before the end of the lease");
            child.wait().unwrap();
            found
        };
        assert!(ended("exit 3"));
        assert!(ended("kill -TERM $$"));
        assert!(!ended("kill -KILL $$"));
    }
}
