//! The processes of this machine, as `/proc` lists them.

use std::io;

use rustix::process::{Pid, Signal, test_kill_process};

/// A process. Another one may have its id after its end, but not the time of its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) id: i32,
    /// When the process was started, in ticks of the clock since the start of the machine.
    pub(super) start: u64,
}

/// What the table says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) process: Process,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// It has ended, and its parent has not reaped it.
    pub(super) is_over: bool,
}

/// All processes that this one may see. The table is not a snapshot: a process whose parent ends
/// while the table is read may name a parent that has no row of its own.
pub(super) fn rows() -> Vec<Row> {
    platform::ids().into_iter().filter_map(platform::row).collect()
}

/// A process that this one may see.
pub(super) fn row(id: i32) -> Option<Row> {
    platform::row(id)
}

/// The ids of the children of this process, also of those that have ended and are not reaped. The
/// list may miss one that comes while it is read, but not all of them: new ones are added at its
/// end. Empty where the system has no such list.
pub(super) fn children() -> Vec<i32> {
    platform::children()
}

impl Process {
    /// Is it there, and not of another user?
    pub(super) fn may_be_killed(self) -> bool {
        Pid::from_raw(self.id).is_some_and(|id| test_kill_process(id).is_ok())
    }

    /// Sends a signal to this process, and not to another one that has its id by now. It is no
    /// error if this one is over.
    pub(super) fn send(self, signal: Signal) -> io::Result<()> {
        platform::send(self, signal)
    }

    /// Was it started with this variable, `NAME=value`? A program can overwrite its variables, and
    /// those of a process of another user cannot be read.
    pub(super) fn has_variable(self, variable: &str) -> bool {
        let variables = std::fs::read(format!("/proc/{}/environ", self.id)).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod platform {
    use std::{fs, io};

    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

    use super::{Process, Row};

    pub(super) fn ids() -> Vec<i32> {
        let Ok(directory) = fs::read_dir("/proc") else { return Vec::new() };
        let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        directory.filter_map(|entry| id(entry.ok()?)).collect()
    }

    pub(super) fn row(id: i32) -> Option<Row> {
        parse(id, &fs::read(format!("/proc/{id}/stat")).ok()?)
    }

    /// Each thread has its own.
    pub(super) fn children() -> Vec<i32> {
        let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
        let read = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
        let lists: Vec<String> = threads.filter_map(|thread| read(thread.ok()?)).collect();
        let ids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
        ids.filter_map(|id| id.parse().ok()).collect()
    }

    /// Reads what stands in `/proc/<id>/stat`.
    fn parse(id: i32, stat: &[u8]) -> Option<Row> {
        // Ahead is the name of the program in parentheses, which may be any bytes.
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&str> =
            str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().collect();
        let (state, threads) = (*fields.first()?, *fields.get(17)?);
        Some(Row {
            process: Process { id, start: fields.get(19)?.parse().ok()? },
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            // The first thread may end before the others.
            is_over: matches!(state, "Z" | "X") && matches!(threads, "0" | "1"),
        })
    }

    pub(super) fn send(process: Process, signal: Signal) -> io::Result<()> {
        let Some(id) = Pid::from_raw(process.id) else { return Ok(()) };
        // From here on the handle means the process that has the id now, whatever follows.
        let handle = pidfd_open(id, PidfdFlags::empty());
        if row(process.id).is_none_or(|now| now.process != process) {
            return Ok(());
        }
        let sent = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            // An old kernel has no handles.
            Err(_) => kill_process(id, signal),
        };
        match sent {
            Err(Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_row_is_read_whatever_the_name_of_the_program_is() {
            let stat = |name: &[u8], state: &str, threads: u32| {
                let rest =
                    format!(") {state} 1 7 7 0 -1 4 1 0 0 0 3 4 0 0 20 0 {threads} 0 99 8 5");
                [b"42 (", name, rest.as_bytes()].concat()
            };
            let process = Process { id: 42, start: 99 };
            let row = Row { process, parent: 1, group: 7, is_over: false };
            assert_eq!(parse(42, &stat(b"sh", "S", 1)), Some(row));
            assert_eq!(parse(42, &stat(b"a) Z 9 (\xff\n", "S", 1)), Some(row));
            assert_eq!(parse(42, &stat(b"sh", "Z", 1)), Some(Row { is_over: true, ..row }));
            assert_eq!(parse(42, &stat(b"sh", "Z", 2)), Some(row), "other threads go on");
            assert_eq!(parse(42, b"42 (sh) S 1 7"), None);
            assert_eq!(parse(42, b""), None);
        }

        #[test]
        fn a_child_is_listed_until_it_is_reaped() {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let id = i32::try_from(child.id()).unwrap();
            while !row(id).unwrap().is_over {
                std::thread::yield_now();
            }
            assert!(children().contains(&id));
            child.wait().unwrap();
            assert!(!children().contains(&id));
        }

        #[test]
        fn a_signal_is_for_one_process_not_for_its_id() {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            let id = i32::try_from(child.id()).unwrap();
            let process = row(id).unwrap().process;
            let former = Process { start: process.start - 1, ..process };
            former.send(Signal::KILL).unwrap();
            assert!(!row(id).unwrap().is_over);
            process.send(Signal::KILL).unwrap();
            child.wait().unwrap();
            process.send(Signal::KILL).unwrap();
        }
    }
}

/// Elsewhere no parent is asked for, and no process adopts those that have lost their own.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod platform {
    use std::io;

    use rustix::process::Signal;

    use super::{Process, Row};

    pub(super) fn ids() -> Vec<i32> {
        Vec::new()
    }

    pub(super) fn row(_id: i32) -> Option<Row> {
        None
    }

    pub(super) fn children() -> Vec<i32> {
        Vec::new()
    }

    pub(super) fn send(_process: Process, _signal: Signal) -> io::Result<()> {
        Ok(())
    }
}
