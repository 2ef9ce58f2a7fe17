//! `redlock run` when its lock is lost: the command is gone before its lease can have ended on the
//! server, every time. The commands here ignore SIGTERM.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use fault_kit::proxy::{Then, contains};
use fault_kit::{Proxy, Server, counted, eventually, full, ms, secs, unique_prefix, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::task::JoinSet;

use crate::pace::Pace;
use crate::support::{
    Ended, Marks, SOON, STUBBORN, ended, full_pipe, gone, program, run, send, start, start_at, tool,
};

/// A lease that is renewed; four seconds before its end.
pub const EXPIRE: Duration = secs(12);
/// A lease that outlasts the test.
pub const LONG: Duration = secs(120);

/// A command that does not want to end, under a lock.
pub struct Job {
    pub server: Server,
    pub marks: Marks,
    key: String,
    pub child: Child,
    pub pid: String,
    pace: Pace,
}

impl Job {
    async fn start(expire: Duration) -> Self {
        Self::run(expire, STUBBORN).await
    }

    pub async fn run(expire: Duration, script: &str) -> Self {
        let server = Server::start().await;
        let (marks, key, pace) = (Marks::new(), unique_prefix(), Pace::watch());
        let expire = format!("{}s", expire.as_secs());
        let args = ["--expire", &expire, "--grace", "1s", "-k", &key, "sh", "-c", script];
        let child = start(&server, &marks, &args);
        let pid = marks.there("pid").await;
        Self { server, marks, key, child, pid, pace }
    }

    /// Stops redlock (SIGSTOP): the watchdog ends the command before the end of the lease.
    pub async fn ends_while_redlock_is_stopped(mut self) {
        let mut stderr = BufReader::new(self.child.stderr.take().unwrap()).lines();
        let end = self.end_of_lease().await;
        send(&self.child, Signal::STOP);
        let said = within(SOON, stderr.next_line()).await.unwrap().unwrap();
        assert!(said.contains("stood still"), "{said}");
        send(&self.child, Signal::CONT);
        let (ended, _) = self.ends_before(end).await;
        assert_eq!(ended.code, 76, "{ended:?}");
    }

    pub fn lock(&self) -> String {
        format!("lock:{}", self.key)
    }

    /// Does something to the lock, and says when its lease would have ended on the server.
    pub async fn end_of_lease_with(&self, change: &str) -> SystemTime {
        let script = format!("local left = redis.call('PTTL', KEYS[1]) {change} return left");
        let asked = SystemTime::now();
        let left = self.server.raw().int(&["EVAL", &script, "1", &self.lock()]).await;
        asked + ms(left.try_into().expect("the lock is held"))
    }

    /// When the lease ends on the server unless it is renewed, which will take seconds.
    pub async fn end_of_lease(&self) -> SystemTime {
        let end = eventually(SOON, || async {
            let asked = SystemTime::now();
            let left = self.server.raw().pttl(&self.lock()).await.unwrap();
            Some(asked + left).filter(|_| left > EXPIRE * 2 / 3)
        });
        end.await
    }

    /// Waits for the end. The last sign of life came before the lease ended on the server: so long.
    pub async fn ends_before(self, end: SystemTime) -> (Ended, Duration) {
        let ended = ended(self.child).await;
        gone(&self.pid).await;
        let last = self.marks.last_sign("alive");
        let late = last.duration_since(end).unwrap_or_default();
        assert!(late <= self.pace.allowance(), "it ran for {late:?} too long: {ended:?}");
        (ended, end.duration_since(last).unwrap_or_default())
    }
}

/// Loses a lock in one way, again and again; each time tells how long before the end of its lease
/// the command showed a sign of life for the last time.
async fn again<F>(what: &str, lose: fn() -> F)
where
    F: Future<Output = Duration> + Send + 'static,
{
    let (times, at_once) = full((1, 1), (13, 4));
    let (mut running, mut margins) = (JoinSet::new(), Vec::new());
    for _ in 0..times {
        if running.len() == at_once {
            margins.extend(running.join_next().await.map(Result::unwrap));
        }
        running.spawn(lose());
    }
    margins.extend(running.join_all().await);
    let least = margins.iter().min().unwrap();
    counted(&format!(
        "{} locks lost ({what}): the command was gone {least:.2?} or more before its lease of \
         {EXPIRE:?} could have ended",
        margins.len()
    ));
}

#[tokio::test]
async fn a_lock_whose_key_was_deleted() {
    again("key deleted", lose_key).await;
}

async fn lose_key() -> Duration {
    let job = Job::start(EXPIRE).await;
    let end = job.end_of_lease_with("redis.call('DEL', KEYS[1])").await;
    let (ended, margin) = job.ends_before(end).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("its key is gone"), "{ended:?}");
    assert!(ended.stderr.contains("SIGTERM"), "{ended:?}");
    margin
}

/// Another process had the lock meanwhile. The command itself has not failed, but was not alone.
#[tokio::test]
async fn a_loss_that_only_the_release_finds() {
    let server = Server::shared().await;
    for (code, expected) in [("0", 76), ("3", 3)] {
        let (marks, key) = (Marks::new(), unique_prefix());
        let script = format!("echo on >on; until [ -e go ]; do sleep 0.02; done; exit {code}");
        let job = start(server, &marks, &["-k", &key, "sh", "-c", &script]);
        marks.there("on").await;
        server.raw().del(&format!("lock:{key}")).await;
        let other = run(server, &["run", "-n", "-k", &key, "true"]).await;
        assert_eq!(other.code, 0, "{other:?}");
        marks.make("go");
        let ended = ended(job).await;
        assert_eq!(ended.code, expected, "{ended:?}");
        assert!(ended.stderr.contains("was lost while the command ran"), "{ended:?}");
    }
}

/// The answer to the release is lost, and so is the news that the key was gone already.
#[tokio::test]
async fn a_loss_that_nobody_can_tell_from_a_release() {
    let server = Server::shared().await;
    for (code, expected) in [("0", 76), ("3", 3)] {
        let (marks, key, proxy) = (Marks::new(), unique_prefix(), Proxy::start(server));
        let script = format!("echo on >on; until [ -e go ]; do sleep 0.02; done; exit {code}");
        let args = ["--expire", "120s", "-k", &key, "sh", "-c", &script];
        let job = start_at(&proxy.url(), &marks, &args);
        marks.there("on").await;
        server.raw().del(&format!("lock:{key}")).await;
        let other = run(server, &["run", "-n", "-k", &key, "true"]).await;
        assert_eq!(other.code, 0, "{other:?}");
        let cut = proxy.when(contains(&key), Then::CutReply);
        marks.make("go");
        let ended = ended(job).await;
        assert_eq!((ended.code, cut.count()), (expected, 1), "{ended:?}");
        let doubt = format!("it is not known whether lock `{key}` was held to the end");
        assert!(ended.stderr.contains(&doubt), "{ended:?}");
    }
}

/// The server has lost the lock, and answers nobody by the time the command ends.
#[tokio::test]
async fn a_loss_that_no_release_can_find() {
    let server = Server::start().await;
    let marks = Marks::new();
    let start = async |code: &str| {
        let script = format!("echo on >{code}; until [ -e go ]; do sleep 0.02; done; exit {code}");
        let args = ["--expire", "120s", "-k", code, "sh", "-c", &script];
        let job = start(&server, &marks, &args);
        marks.there(code).await;
        server.raw().del(&format!("lock:{code}")).await;
        let other = run(&server, &["run", "-n", "-k", code, "true"]).await;
        assert_eq!(other.code, 0, "{other:?}");
        job
    };
    let jobs = [(start("0").await, 76), (start("3").await, 3)];
    server.freeze();
    marks.make("go");
    for (job, expected) in jobs {
        let ended = ended(job).await;
        assert_eq!(ended.code, expected, "{ended:?}");
        assert!(ended.stderr.contains("it is not known whether lock"), "{ended:?}");
        assert!(ended.stderr.contains("no reply"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_lock_that_another_owner_has() {
    again("another owner", lose_to_another).await;
}

async fn lose_to_another() -> Duration {
    let job = Job::start(EXPIRE).await;
    let end = job.end_of_lease_with("redis.call('SET', KEYS[1], 'thief', 'PX', '600000')").await;
    let (ended, margin) = job.ends_before(end).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("another owner"), "{ended:?}");
    margin
}

#[tokio::test]
async fn a_server_that_is_frozen() {
    again("server frozen", lose_to_freeze).await;
}

async fn lose_to_freeze() -> Duration {
    let job = Job::start(EXPIRE).await;
    let end = job.end_of_lease().await;
    job.server.freeze();
    let (ended, margin) = job.ends_before(end).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("no renewal of lock"), "{ended:?}");
    margin
}

#[tokio::test]
async fn a_server_that_was_killed() {
    again("server killed", lose_to_kill).await;
}

async fn lose_to_kill() -> Duration {
    let job = Job::start(EXPIRE).await;
    let end = job.end_of_lease().await;
    job.server.kill9();
    let (ended, margin) = job.ends_before(end).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    margin
}

/// Ends redlock, after which the command is gone long before the lease ends.
pub async fn killed(mut job: Job) {
    send(&job.child, Signal::KILL);
    gone(&job.pid).await;
    assert!(job.server.raw().get(&job.lock()).await.is_some(), "the lease has not ended yet");
    job.child.wait().await.unwrap();
}

#[tokio::test]
async fn a_redlock_that_was_killed() {
    killed(Job::start(LONG).await).await;
}

/// Also what the command has started.
#[tokio::test]
async fn a_redlock_that_was_killed_with_children_of_its_command() {
    let script = format!("({STUBBORN}) & wait");
    let script = script.replace("$$", "$(exec sh -c 'echo $PPID')");
    killed(Job::run(LONG, &script).await).await;
}

/// A process that is stopped renews nothing, and ends nobody: its watchdog does.
#[tokio::test]
async fn a_redlock_that_was_stopped() {
    Job::start(EXPIRE).await.ends_while_redlock_is_stopped().await;
}

#[tokio::test]
async fn renewals_that_are_used_up() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "trap 'echo asked >asked; exit 0' TERM; while :; do sleep 0.02; done";
    // A renewal would come three seconds before the grace begins.
    let lease = ["--expire", "18s", "--grace", "3s", "--max-renew", "0"];
    let args = [&lease[..], &["-k", &key, "sh", "-c", script]].concat();
    let ended = ended(start(server, &marks, &args)).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert_eq!(marks.read("asked"), "asked", "there is time to end by itself");
    assert!(ended.stderr.contains("no renewals are left"), "{ended:?}");
}

/// It would begin though it has to end, and ignores that.
#[tokio::test]
async fn a_command_whose_lease_is_about_to_end_does_not_begin() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let lease = ["--expire", "1s", "--grace", "940ms", "--max-renew", "0"];
    let ignoring = ["-c", "trap '' TERM; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_redlock"), "run"];
    let words = [&ignoring[..], &lease, &["-k", &key, "touch", "ran"]].concat();
    let mut shell = program("sh", &server.url_with_password(), &words);
    let ended = ended(shell.current_dir(marks.path()).spawn().unwrap()).await;
    assert_eq!((ended.code, marks.has("ran")), (76, false), "{ended:?}");
    assert!(ended.stderr.contains("the command is not started"), "{ended:?}");
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_command_runs() {
    let job = Job::start(EXPIRE).await;
    let raw = job.server.raw();
    let owner = raw.get(&job.lock()).await;
    let left = Cell::new(Duration::MAX);
    eventually(SOON, || async {
        let now = raw.pttl(&job.lock()).await.unwrap();
        now > left.replace(now)
    })
    .await;
    assert_eq!(raw.get(&job.lock()).await, owner);
    send(&job.child, Signal::KILL);
    gone(&job.pid).await;
}

/// `killall -9 redlock`: the kernel kills the command.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_redlock_that_was_killed_together_with_its_watchdog() {
    let job = Job::start(LONG).await;
    let id = job.child.id().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let watchdog = children.split_whitespace().find(|child| *child != job.pid).unwrap();
    let watchdog = rustix::process::Pid::from_raw(watchdog.parse().unwrap()).unwrap();
    rustix::process::kill_process(watchdog, Signal::KILL).unwrap();
    killed(job).await;
}

/// What it says has to wait, not the signal.
#[tokio::test]
async fn a_command_gets_its_signal_though_stderr_stands_still() {
    let server = Server::start().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    // The shell would say on stderr, too, what the signal ended.
    let script =
        "exec 2>/dev/null; trap 'echo x >told' TERM; echo x >on; while :; do sleep 0.05; done";
    let args = ["run", "--expire", "12s", "--grace", "1s", "-k", &key, "sh", "-c", script];
    let (reader, writer) = full_pipe();
    let mut command = tool(&server.url(), &args);
    let child = command.current_dir(marks.path()).stderr(writer).spawn().unwrap();
    marks.there("on").await;
    server.raw().del(&format!("lock:{key}")).await;
    marks.there("told").await;
    drop(reader);
    assert_eq!(ended(child).await.code, 76);
}
