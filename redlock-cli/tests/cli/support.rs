//! Runs the tool, and children that can be seen.

use std::io::{PipeReader, PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use fault_kit::{Server, eventually, secs, within};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// For what takes no time by itself.
pub const SOON: Duration = secs(30);

/// The tool, with nothing of this machine's own settings.
pub fn tool(url: &str, args: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_redlock"), url, args)
}

/// A program that may start the tool. It ignores no signal, even if this process was started to
/// (`nohup`, `&` in a script).
pub fn program(name: &str, url: &str, args: &[&str]) -> Command {
    handle_ignored();
    let mut command = Command::new(name);
    for (name, _) in std::env::vars() {
        if name.starts_with("REDLOCK_") || name == "REDIS_URL" {
            command.env_remove(name);
        }
    }
    command.env("REDLOCK_URLS", url).args(args).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Handles the signals that this process ignores: a program that it starts would ignore them, too,
/// but handlers are not handed down.
fn handle_ignored() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let ignored = u64::from_str_radix(field.trim(), 16).unwrap();
    for number in [Signal::HUP, Signal::INT, Signal::QUIT].map(Signal::as_raw) {
        if ignored >> (number - 1) & 1 == 1 {
            drop(signal(SignalKind::from_raw(number)).unwrap());
        }
    }
}

/// What the tool printed, and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// As shells see it: 128 + n for signal n.
    pub code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub async fn ended(child: Child) -> Ended {
    let output = within(secs(60), child.wait_with_output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let signal = output.status.signal();
    let code = output.status.code().or(signal.map(|signal| 128 + signal));
    let code = code.unwrap_or_else(|| panic!("{:?}", output.status));
    Ended { code, signal, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the tool to its end.
pub async fn run(server: &Server, args: &[&str]) -> Ended {
    ended(tool(&server.url_with_password(), args).spawn().unwrap()).await
}

pub fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap()
}

pub fn send(child: &Child, signal: Signal) {
    kill_process(pid(child), signal).unwrap();
}

/// A directory in which scripts leave marks.
pub struct Marks(TempDir);

impl Marks {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn make(&self, name: &str) {
        std::fs::write(self.file(name), "").unwrap();
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default().trim().to_owned()
    }

    /// Waits until a script has made this file, with something in it.
    pub async fn there(&self, name: &str) -> String {
        eventually(SOON, || async { Some(self.read(name)).filter(|text| !text.is_empty()) }).await
    }

    /// When a script touched this file last.
    pub fn last_sign(&self, name: &str) -> SystemTime {
        std::fs::metadata(self.file(name)).unwrap().modified().unwrap()
    }
}

/// Says its process id in the file `pid`, and shows by the file `alive` that it runs. It ignores
/// what it can.
pub const STUBBORN: &str = "trap '' TERM INT HUP; touch alive; echo $$ >pid; \
     while [ -e pid ]; do touch alive; sleep 0.02; done";

/// Waits until a process is gone.
pub async fn gone(pid: &str) {
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    eventually(SOON, || async { test_kill_process(pid).is_err() }).await;
}

/// A command under a lock, in a directory for its marks.
pub fn start(server: &Server, marks: &Marks, args: &[&str]) -> Child {
    start_at(&server.url_with_password(), marks, args)
}

pub fn start_at(url: &str, marks: &Marks, args: &[&str]) -> Child {
    tool(url, &[&["run"], args].concat()).current_dir(marks.path()).spawn().unwrap()
}

/// A pipe that takes no more until somebody reads from it; full of dots.
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 512]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}
