//! `redlock run` when its lock is lost: the command is gone before its lease can have ended on the
//! server, every time. The commands here ignore SIGTERM.

use std::time::{Duration, SystemTime};

use fault_kit::{Server, secs, time_passes, unique_prefix};
use rustix::process::Signal;
use tokio::process::Child;

use crate::support::{Ended, Marks, STUBBORN, ended, gone, send, start};

const EXPIRE: Duration = secs(6);

/// A command that does not want to end, under a lock.
struct Job {
    server: Server,
    marks: Marks,
    key: String,
    child: Child,
    /// Before its lease began.
    begun: SystemTime,
    pid: String,
}

impl Job {
    async fn start() -> Self {
        Self::run(STUBBORN).await
    }

    async fn run(script: &str) -> Self {
        let server = Server::start().await;
        let (marks, key) = (Marks::new(), unique_prefix());
        let begun = SystemTime::now();
        let args = ["--expire", "6s", "--grace", "1s", "-k", &key, "sh", "-c", script];
        let child = start(&server, &marks, &args);
        let pid = marks.there("pid").await;
        Self { server, marks, key, child, begun, pid }
    }

    fn lock(&self) -> String {
        format!("lock:{}", self.key)
    }

    /// Waits for the end. The last sign of life came before the first lease ended on the server.
    async fn ends_in_time(self) -> Ended {
        let Self { marks, child, begun, pid, .. } = self;
        let ended = ended(child).await;
        gone(&pid).await;
        let ran = marks.last_sign("alive").duration_since(begun).unwrap();
        assert!(ran < EXPIRE, "it ran for {ran:?}: {ended:?}");
        ended
    }
}

#[tokio::test]
async fn a_lock_whose_key_was_deleted() {
    let job = Job::start().await;
    assert!(job.server.raw().del(&job.lock()).await);
    let ended = job.ends_in_time().await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("the lease expired"), "{ended:?}");
    assert!(ended.stderr.contains("SIGTERM"), "{ended:?}");
}

#[tokio::test]
async fn a_lock_that_another_owner_has() {
    let job = Job::start().await;
    let (raw, lock) = (job.server.raw(), job.lock());
    raw.cmd(&["SET", &lock, "thief", "PX", "600000"]).await;
    let ended = job.ends_in_time().await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("another owner"), "{ended:?}");
}

#[tokio::test]
async fn a_server_that_is_frozen() {
    let job = Job::start().await;
    job.server.freeze();
    let ended = job.ends_in_time().await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("no renewal of lock"), "{ended:?}");
}

#[tokio::test]
async fn a_server_that_was_killed() {
    let job = Job::start().await;
    job.server.kill9();
    let ended = job.ends_in_time().await;
    assert_eq!(ended.code, 76, "{ended:?}");
}

#[tokio::test]
async fn a_redlock_that_was_killed() {
    let mut job = Job::start().await;
    send(&job.child, Signal::KILL);
    within_moments(&job.pid).await;
    job.child.wait().await.unwrap();
    assert!(job.server.raw().get(&job.lock()).await.is_some(), "the lease has not ended yet");
}

/// Also what the command has started.
#[tokio::test]
async fn a_redlock_that_was_killed_with_children_of_its_command() {
    let script = format!("({STUBBORN}) & wait");
    let mut job = Job::run(&script.replace("$$", "$(exec sh -c 'echo $PPID')")).await;
    send(&job.child, Signal::KILL);
    within_moments(&job.pid).await;
    job.child.wait().await.unwrap();
}

/// A process that is stopped renews nothing, and ends nobody: its watchdog does.
#[tokio::test]
async fn a_redlock_that_was_stopped() {
    let job = Job::start().await;
    send(&job.child, Signal::STOP);
    time_passes(EXPIRE).await;
    send(&job.child, Signal::CONT);
    let ended = job.ends_in_time().await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("stood still"), "{ended:?}");
}

#[tokio::test]
async fn renewals_that_are_used_up() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "trap 'echo asked >asked; exit 0' TERM; while :; do sleep 0.02; done";
    let args = ["--expire", "3s", "--max-renew", "0", "-k", &key, "sh", "-c", script];
    let ended = ended(start(server, &marks, &args)).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert_eq!(marks.read("asked"), "asked", "there is time to end by itself");
    assert!(ended.stderr.contains("no renewals are left"), "{ended:?}");
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_command_runs() {
    let job = Job::start().await;
    let raw = job.server.raw();
    let owner = raw.get(&job.lock()).await;
    time_passes(EXPIRE + secs(1)).await;
    assert_eq!(raw.get(&job.lock()).await, owner);
    send(&job.child, Signal::KILL);
    gone(&job.pid).await;
}

/// Long before a lease of six seconds ends.
async fn within_moments(pid: &str) {
    let begin = SystemTime::now();
    gone(pid).await;
    let took = begin.elapsed().unwrap();
    assert!(took < secs(3), "{took:?}");
}

/// `killall -9 redlock`: the kernel kills the command.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_redlock_that_was_killed_together_with_its_watchdog() {
    let mut job = Job::start().await;
    let id = job.child.id().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let watchdog = children.split_whitespace().find(|child| *child != job.pid).unwrap();
    let watchdog = rustix::process::Pid::from_raw(watchdog.parse().unwrap()).unwrap();
    rustix::process::kill_process(watchdog, Signal::KILL).unwrap();
    send(&job.child, Signal::KILL);
    within_moments(&job.pid).await;
    job.child.wait().await.unwrap();
}
