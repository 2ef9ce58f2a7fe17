//! Further processes of this program.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Another process of this program; `role` is the first of its arguments.
pub(super) fn in_role(role: &str) -> std::io::Result<Command> {
    // Also if the file was replaced or removed by an update meanwhile.
    let program =
        if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    command.arg0("redlock").arg(role);
    Ok(command)
}
