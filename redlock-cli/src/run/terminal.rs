//! The controlling terminal, and who may read from it.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal as Masked};
use nix::unistd::{getpgid, getpgrp, getppid, getsid};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_current_process_group, test_kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

use super::process_table::{Row, row, rows};
use crate::signals::is_heeded;

/// The terminal of this session, if there is one.
#[derive(Debug)]
pub(super) struct Terminal {
    device: Option<File>,
    /// It was given to the command. What that starts may have it since.
    is_given: bool,
    /// Its modes, as they were when it was given to the command first.
    modes: Option<Termios>,
}

impl Terminal {
    /// Processes that this thread starts from here on would inherit a blocked signal.
    pub(super) fn open() -> Self {
        use_from_background();
        let device = File::options().read(true).write(true).open("/dev/tty").ok();
        Self { device, is_given: false, modes: None }
    }

    pub(super) fn is_there(&self) -> bool {
        self.device.is_some()
    }

    /// Should the command have the terminal from the start? Not inside of a pipeline: another part
    /// of it (`| less`) may read the keyboard. The command gets the terminal there when it asks.
    pub(super) fn is_for_command(&self) -> bool {
        self.is_ours() && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Is this job in the foreground?
    pub(super) fn is_ours(&self) -> bool {
        self.foreground().is_some() && self.foreground() == own_group()
    }

    /// Has the group of the command the keyboard?
    pub(super) fn is_of(&self, group: Pid) -> bool {
        self.foreground() == Some(group)
    }

    /// Makes the group of the command the foreground one.
    pub(super) fn give(&mut self, group: Pid) {
        self.is_given = true;
        if self.modes.is_none() {
            self.modes = self.device.as_ref().and_then(|device| tcgetattr(device).ok());
        }
        self.set_foreground(group);
    }

    /// Sets the modes back that a command has changed, which was killed and could not do it: its
    /// shell does that only where redlock is ended by a signal as well.
    pub(super) fn restore_modes(&self) {
        if let (Some(device), Some(modes)) = (&self.device, &self.modes)
            && self.is_ours()
        {
            // The terminal may be gone.
            let _ = tcsetattr(device, OptionalActions::Now, modes);
        }
    }

    /// Takes the terminal back from the group of the command, or from a group without processes:
    /// a job of the command, which has ended with it. Whether the group of the command had it.
    pub(super) fn take_back(&mut self, group: Pid) -> bool {
        let foreground = self.foreground();
        let had_it = foreground == Some(group);
        let is_empty = |group| test_kill_process_group(group) == Err(Errno::SRCH);
        // What this process has not given away, its shell may be about to take back.
        let is_free = self.is_given && foreground.is_some_and(is_empty);
        self.is_given = false;
        if (had_it || is_free)
            && let Some(own) = own_group()
        {
            self.set_foreground(own);
        }
        had_it
    }

    fn set_foreground(&self, group: Pid) {
        if let Some(device) = &self.device {
            // The terminal may be gone.
            let _ = tcsetpgrp(device, group);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        self.device.as_ref().and_then(|device| tcgetpgrp(device).ok())
    }
}

/// The signal for a command that waits for the terminal, where no shell is left that could continue
/// it. `times`: how often the command has waited so before. The first signal is the one that the
/// kernel sends to a job whose shell has ended.
pub(super) fn signal_without_shell(times: usize) -> (Signal, &'static str) {
    match times {
        0 => (Signal::HUP, "SIGHUP"),
        1 => (Signal::TERM, "SIGTERM"),
        _ => (Signal::KILL, "SIGKILL"),
    }
}

/// This thread may write to the terminal, and pass it on, while another job has it: SIGTTOU would
/// stop the process.
pub(super) fn use_from_background() {
    let _ = SigSet::from(Masked::SIGTTOU).thread_block();
}

/// Stops this job, as the terminal does at Ctrl-Z, and returns when the shell has continued it.
/// `false`: there is no shell that could.
pub(super) fn suspend() -> bool {
    stop(Signal::STOP)
}

/// The same as for a job that reads the terminal from the background: those in it that go on then
/// (`timeout`) do.
pub(super) fn suspend_as_reader() -> bool {
    stop(if is_heeded(Signal::TTIN) { Signal::TTIN } else { Signal::STOP })
}

fn stop(signal: Signal) -> bool {
    !is_orphaned() && kill_current_process_group(signal).is_ok()
}

/// `None`: it belongs to processes outside of this container.
fn own_group() -> Option<Pid> {
    Pid::from_raw(getpgrp().as_raw())
}

/// Is there no process outside of this job, but in its session, that looks after it? It is the
/// parent of any process of the job.
fn is_orphaned() -> bool {
    let (job, session, rows) = (getpgrp(), getsid(None), rows());
    let is_inside = |parent| getpgid(Some(parent)) == Ok(job);
    let looks_after = |parent| !is_inside(parent) && getsid(Some(parent)) == session;
    // A parent that the table does not show may have one outside.
    let (parent, is_shown) = (getppid(), |id: i32| row(id).is_some());
    let may_be_looked_after =
        looks_after(parent) || is_inside(parent) && !is_shown(parent.as_raw());
    let of_job = |row: &Row| row.group == job.as_raw() && !row.is_over;
    let mut members = rows.into_iter().filter(of_job);
    let is_looked_after = may_be_looked_after
        || members.any(|row| looks_after(nix::unistd::Pid::from_raw(row.parent)));
    session == Ok(job) || !is_looked_after
}
