//! This program in other roles than that of the command line tool.

use std::ffi::OsString;

use super::{gate, watchdog};

/// The exit code, if the arguments name a role.
pub(crate) fn play(args: &[OsString]) -> Option<u8> {
    match args.get(1).and_then(|role| role.to_str()) {
        Some(gate::ROLE) => Some(gate::pass(&args[2..])),
        Some(watchdog::ROLE) => Some(watchdog::watch()),
        _ => None,
    }
}
