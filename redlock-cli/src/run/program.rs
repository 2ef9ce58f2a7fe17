//! Further processes of this program.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::{fs, io};

/// The program of this process, also if its file was replaced or removed by an update meanwhile.
const OWN: &str = "/proc/self/exe";

/// Another process of this program; `role` is the first of its arguments.
pub(super) fn in_role(role: &str) -> io::Result<Command> {
    let program = if cfg!(target_os = "linux") {
        let error = |error| io::Error::other(format!("{OWN}: {error}; is /proc mounted?"));
        fs::symlink_metadata(OWN).map_err(error)?;
        OWN.into()
    } else {
        std::env::current_exe()?
    };
    let mut command = Command::new(program);
    command.arg0("redlock").arg(role);
    Ok(command)
}

/// A process that was started, and is killed unless it gets ready.
#[derive(Debug)]
pub(super) struct Unready {
    child: Option<Child>,
}

impl Unready {
    pub(super) fn new(child: Child) -> Self {
        Self { child: Some(child) }
    }

    /// It is ready, or over: it is not killed.
    pub(super) fn leave(mut self) {
        self.child = None;
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It is not waited for: it may wait for a disk, and this process ends soon.
            let _ = child.kill();
        }
    }
}
