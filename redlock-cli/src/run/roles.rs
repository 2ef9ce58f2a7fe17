//! This program in other roles than that of the command line tool.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{gate, watchdog};

/// The exit code, if the arguments name a role.
pub(crate) fn play(args: &[OsString]) -> Option<u8> {
    match args.get(1).and_then(|role| role.to_str()) {
        Some(gate::ROLE) => Some(gate::pass(&args[2..])),
        Some(watchdog::ROLE) => Some(watchdog::watch()),
        _ => None,
    }
}

/// Another process of this program.
pub(super) fn command(role: impl AsRef<OsStr>) -> std::io::Result<Command> {
    // Also if the file was replaced or removed by an update meanwhile.
    let program =
        if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    command.arg0("redlock").arg(role);
    Ok(command)
}
