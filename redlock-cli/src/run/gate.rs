//! The process that becomes the command. It stands still until redlock has told the watchdog of its
//! group and given it the terminal.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal as Masked};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};

use crate::failure;
use crate::output::complain_if_read;

/// The argument that stands before those of this role: the process id of redlock, and the command.
pub(super) const ROLE: &str = "internal-gate";

/// Becomes the command; returns only if that fails, with the exit code.
pub(super) fn pass(args: &[OsString]) -> u8 {
    let [parent, program, words @ ..] = args else { return failure::USAGE };
    let parent = parent.to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
    die_with_parent();
    // From here on the end of redlock is the end of this process, if it was not before.
    if getppid() != parent || kill_process(getpid(), Signal::STOP).is_err() {
        return failure::LOST;
    }
    if getppid() != parent {
        return failure::LOST;
    }
    let error = Command::new(program).args(words).exec();
    // `exec` has given SIGPIPE its default back. It would end this process before its exit code
    // says why, where the reader of stderr has gone.
    let _ = SigSet::from(Masked::SIGPIPE).thread_block();
    let code = match error.kind() {
        ErrorKind::NotFound => failure::NOT_FOUND,
        _ => failure::CANNOT_RUN,
    };
    complain_if_read(&format!("cannot run `{}`: {error}", program.to_string_lossy()));
    code
}

/// The kernel kills this process, and the command that it becomes, when redlock is gone: also if
/// the watchdog was killed as well.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Elsewhere there is the watchdog only.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() {}
