//! `redlock run` whose further processes stand still while they start: the lock is held by then.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use fault_kit::{Server, eventually, unique_prefix, within};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::support::{Marks, SOON, ended, gone, send, tool};

/// Where each program stands still before its first instruction: the loader reads a library that
/// is named by `LD_PRELOAD`, and this one is a pipe. What it reads there, nothing, it ignores.
struct Threshold {
    marks: Marks,
}

impl Threshold {
    fn new() -> Self {
        let threshold = Self { marks: Marks::new() };
        mknodat(CWD, threshold.path(), FileType::Fifo, Mode::RWXU, 0).unwrap();
        threshold
    }

    fn path(&self) -> PathBuf {
        self.marks.path().join("threshold")
    }

    fn start(&self, server: &Server, args: &[&str]) -> Child {
        let mut command = tool(&server.url_with_password(), &[&["run"], args].concat());
        command.env("LD_PRELOAD", self.path()).current_dir(self.marks.path()).spawn().unwrap()
    }

    /// Lets a program begin that has been started. The one before has to be past its threshold.
    async fn pass(&self) {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        eventually(SOON, || async { options.open(self.path()).is_ok() }).await;
    }
}

/// Waits for a process below redlock whose command line has this word. Its id.
async fn with_word(redlock: &Child, word: &str, at: usize) -> String {
    let id = redlock.id().unwrap();
    let list = format!("/proc/{id}/task/{id}/children");
    let has_word = |child: &str| {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split('\0').nth(at) == Some(word)
    };
    eventually(SOON, || async {
        let children = std::fs::read_to_string(&list).unwrap_or_default();
        children.split_whitespace().find(|child| has_word(child)).map(str::to_owned)
    })
    .await
}

fn is_stopped(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    stat.rsplit(')').next().is_some_and(|fields| fields.starts_with(" T"))
}

/// Lets redlock begin, and waits for its watchdog.
async fn watchdog(threshold: &Threshold, redlock: &Child) -> String {
    threshold.pass().await;
    with_word(redlock, "internal-watchdog", 1).await
}

/// Lets redlock and its watchdog begin, and waits for the process that becomes the command.
async fn gate(threshold: &Threshold, redlock: &Child) -> String {
    watchdog(threshold, redlock).await;
    threshold.pass().await;
    with_word(redlock, "internal-gate", 1).await
}

#[tokio::test]
async fn a_start_that_stands_still_is_given_up_at_a_signal() {
    let server = Server::shared().await;
    for role in ["watchdog", "gate"] {
        let (threshold, key) = (Threshold::new(), unique_prefix());
        let child = threshold.start(server, &["-k", &key, "touch", "ran"]);
        let starting = match role {
            "gate" => gate(&threshold, &child).await,
            _ => watchdog(&threshold, &child).await,
        };
        let (raw, lock) = (server.raw(), format!("lock:{key}"));
        assert!(raw.get(&lock).await.is_some(), "{role}");
        send(&child, Signal::TERM);
        let ended = ended(child).await;
        assert_eq!(ended.signal, Some(Signal::TERM.as_raw()), "{role}: {ended:?}");
        assert!(ended.stderr.contains("a signal asks redlock to end"), "{role}: {ended:?}");
        gone(&starting).await;
        assert_eq!((raw.get(&lock).await, threshold.marks.has("ran")), (None, false), "{role}");
    }
}

/// No command has begun that could be ended.
#[tokio::test]
async fn a_lock_that_is_lost_before_the_command_begins_is_told_as_lost() {
    let server = Server::shared().await;
    let (threshold, key) = (Threshold::new(), unique_prefix());
    let args = ["--expire", "1s", "--max-renew", "0", "-k", &key, "touch", "ran"];
    let child = threshold.start(server, &args);
    threshold.pass().await;
    let ended = ended(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("the command is not started"), "{ended:?}");
    assert!(!threshold.marks.has("ran"));
}

/// The command is stopped once it has begun, as by a Ctrl-Z that comes then.
#[tokio::test]
async fn ctrl_z_during_the_start_stops_the_command() {
    let server = Server::shared().await;
    let (threshold, key) = (Threshold::new(), unique_prefix());
    let mut child = threshold.start(server, &["-k", &key, "true"]);
    gate(&threshold, &child).await;
    send(&child, Signal::TSTP);
    threshold.pass().await;
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    // The loader complains of its library.
    let is_told = |line: &str| line.contains("was stopped, and holds lock");
    while !is_told(&within(SOON, stderr.next_line()).await.unwrap().unwrap()) {}
    assert!(server.raw().get(&format!("lock:{key}")).await.is_some());
    send(&child, Signal::CONT);
    with_word(&child, "true", 0).await;
    threshold.pass().await;
    assert_eq!(ended(child).await.code, 0);
}

/// It looks like the stop of the process itself, which follows.
#[tokio::test]
async fn a_stop_from_outside_does_not_keep_a_command_from_its_begin() {
    let server = Server::shared().await;
    let (threshold, key) = (Threshold::new(), unique_prefix());
    let child = threshold.start(server, &["-k", &key, "true"]);
    let gate = gate(&threshold, &child).await;
    let id = Pid::from_raw(gate.parse().unwrap()).unwrap();
    // redlock continues it as one that is ready: not before the test has seen it stopped.
    send(&child, Signal::STOP);
    kill_process(id, Signal::STOP).unwrap();
    eventually(SOON, || async { is_stopped(&gate) }).await;
    send(&child, Signal::CONT);
    eventually(SOON, || async { !is_stopped(&gate) }).await;
    threshold.pass().await;
    with_word(&child, "true", 0).await;
    threshold.pass().await;
    assert_eq!(ended(child).await.code, 0);
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}
