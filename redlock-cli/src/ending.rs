//! How this process ends: with an exit code, or by a signal.

use std::process::ExitCode;

use rustix::process::{
    Resource, Rlimit, Signal, getpid, getrlimit, kill_current_process_group, setrlimit,
};
use signal_hook::low_level::emulate_default_handler;

use crate::failure;

/// How a command of this tool has ended, and this process ends therefore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Code(u8),
    /// The signal asked this process to end. A shell learns of it only if the process dies of it:
    /// bash goes on with its script after Ctrl-C if the program that it waits for has exited.
    Signal(Signal),
    /// The terminal sent the signal to another process group, which had the keyboard on behalf of
    /// this one: the callers in this process group have to get it as well.
    SignalOfJob(Signal),
}

impl End {
    /// Ends this process if a signal has to. Returns the exit code otherwise.
    pub(crate) fn carry_out(self) -> ExitCode {
        let signal = match self {
            Self::Code(code) => return code.into(),
            Self::Signal(signal) => signal,
            Self::SignalOfJob(signal) => {
                // This process still handles the signal, so that all others get it first.
                let _ = kill_current_process_group(signal);
                signal
            }
        };
        // The kernel protects the first process of a container from its own signals.
        if !getpid().is_init() {
            leave_no_core();
            let _ = emulate_default_handler(signal.as_raw());
        }
        failure::of_signal(signal.as_raw()).into()
    }
}

/// SIGQUIT would write an image of this process, beside that of the command.
fn leave_no_core() {
    let maximum = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}
