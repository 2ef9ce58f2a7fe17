//! The controlling terminal, and who may read from it.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal as Masked};
use nix::unistd::{getpgid, getpgrp, getppid, getsid};
use rustix::process::{Pid, Signal, kill_current_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of this session, if there is one.
#[derive(Debug)]
pub(super) struct Terminal {
    device: Option<File>,
}

impl Terminal {
    /// Processes that this thread starts from here on would inherit a blocked signal.
    pub(super) fn open() -> Self {
        use_from_background();
        Self { device: File::options().read(true).write(true).open("/dev/tty").ok() }
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

    /// Makes a process group the foreground one.
    pub(super) fn give(&self, group: Pid) {
        if let Some(device) = &self.device {
            // The terminal may be gone.
            let _ = tcsetpgrp(device, group);
        }
    }

    /// Takes the terminal back from a group. Whether it had it.
    pub(super) fn take_back(&self, group: Pid) -> bool {
        let had_it = self.foreground() == Some(group);
        if had_it && let Some(own) = own_group() {
            self.give(own);
        }
        had_it
    }

    fn foreground(&self) -> Option<Pid> {
        self.device.as_ref().and_then(|device| tcgetpgrp(device).ok())
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
    !is_orphaned() && kill_current_process_group(Signal::STOP).is_ok()
}

/// `None`: it belongs to processes outside of this container.
fn own_group() -> Option<Pid> {
    Pid::from_raw(getpgrp().as_raw())
}

/// Is there no process outside of this job, but in its session, that looks after it?
fn is_orphaned() -> bool {
    let (job, session, parent) = (getpgrp(), getsid(None), getppid());
    let is_inside = getpgid(Some(parent)) == Ok(job);
    session == Ok(job) || !is_inside && getsid(Some(parent)) != session
}
