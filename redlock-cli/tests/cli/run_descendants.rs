//! `redlock run` and processes below its command that have left the process group: they end with
//! the lock, and only with the lock.

use std::time::SystemTime;

use fault_kit::{Server, eventually, ms, secs, unique_prefix};
use rustix::process::{Pid, Signal, kill_process};

use crate::run_loss::{EXPIRE, Job, LONG, killed};
use crate::support::{Marks, SOON, STUBBORN, ended, gone, program, send, start, tool};

/// For a script: a shell that does not want to end. It does not keep the test's pipes open.
fn stubborn() -> String {
    format!("sh -c \"{}\" >log 2>&1", STUBBORN.replace('$', "\\$"))
}

/// Commands, each with a job that does not want to end in another process group.
fn scripts() -> [String; 3] {
    let job = stubborn();
    [
        // The job is in the group of `timeout`, its parent.
        format!("timeout 120 {job}"),
        // A daemon: its parent is over.
        format!("(setsid {job} &); exec sleep 120"),
        // Neither a name nor a variable says where it belongs.
        format!("timeout 120 env -i PATH=\"$PATH\" {job}"),
    ]
}

/// The lock is lost while the command runs.
async fn lose(script: &str) {
    let job = Job::run(EXPIRE, script).await;
    let end = job.end_of_lease_with("redis.call('DEL', KEYS[1])").await;
    let (ended, _) = job.ends_before(end).await;
    assert_eq!(ended.code, 76, "{script}: {ended:?}");
}

#[tokio::test]
async fn a_job_in_another_group_ends_with_the_lock() {
    let [timeout, daemon, bare] = scripts();
    tokio::join!(lose(&timeout), lose(&daemon), lose(&bare));
}

/// SIGTERM comes first, and there is time to obey.
#[tokio::test]
async fn a_job_in_another_group_is_asked_to_end() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let job = "trap 'echo asked >asked; exit 0' TERM; while :; do sleep 0.02; done";
    let script = format!("(setsid sh -c \"{job}\" >log 2>&1 &); exec sleep 120");
    let lease = ["--expire", "20s", "--grace", "10s", "--max-renew", "0"];
    let args = [&lease[..], &["-k", &key, "sh", "-c", &script]].concat();
    let begin = SystemTime::now();
    let ended = ended(start(server, &marks, &args)).await;
    assert_eq!((ended.code, marks.read("asked").as_str()), (76, "asked"), "{ended:?}");
    assert!(begin.elapsed().unwrap() < secs(19), "all had ended by themselves");
}

/// Each process of this job starts the next one, in a session of its own, and ends.
#[tokio::test]
async fn a_job_that_has_another_process_at_each_look() {
    let next = "[ -e pid ] || exit; touch alive; sleep 0.05; setsid sh ./next & exit";
    let script = format!("echo '{next}' >next; echo $$ >pid; sh ./next >log 2>&1; exec sleep 120");
    let job = Job::run(EXPIRE, &script).await;
    let alive = job.marks.path().join("alive");
    let end = job.end_of_lease_with("redis.call('DEL', KEYS[1])").await;
    let ended = ended(job.child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    let last = std::fs::metadata(&alive).unwrap().modified().unwrap();
    assert!(last < end, "{ended:?}");
    tokio::time::sleep(ms(500)).await;
    assert_eq!(std::fs::metadata(&alive).unwrap().modified().unwrap(), last, "{ended:?}");
}

#[tokio::test]
async fn a_job_in_another_group_ends_with_a_redlock_that_was_killed() {
    let [timeout, daemon, _] = scripts();
    killed(Job::run(LONG, &timeout).await).await;
    killed(Job::run(LONG, &daemon).await).await;
}

#[tokio::test]
async fn a_job_in_another_group_ends_with_a_redlock_that_was_stopped() {
    let [timeout, daemon, bare] = scripts();
    let stopped = async |script: &str| {
        Job::run(EXPIRE, script).await.ends_while_redlock_is_stopped().await;
    };
    tokio::join!(stopped(&timeout), stopped(&daemon), stopped(&bare));
}

/// A second redlock below the first one: its lock is of no use without the outer one.
#[tokio::test]
async fn a_redlock_below_another_one_ends_with_it() {
    let inner = format!("{} run -k inner -- {}", env!("CARGO_BIN_EXE_redlock"), scripts()[0]);
    let script = format!("timeout 120 {inner}");
    tokio::join!(lose(&script), async { killed(Job::run(LONG, &script).await).await });
}

/// What has left the group goes on, as documented, where the command ends by itself.
#[tokio::test]
async fn a_daemon_outlives_a_command_that_ends_by_itself() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = format!("(setsid {} &); until [ -e pid ]; do sleep 0.02; done", stubborn());
    let ended = ended(start(server, &marks, &["-k", &key, "sh", "-c", &script])).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
    goes_on(&marks, "alive").await;
}

/// Also where redlock has to kill what is left in the group.
#[tokio::test]
async fn a_daemon_outlives_what_a_command_has_left_behind() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let left =
        STUBBORN.replace("pid", "left").replace("alive", "of-left").replace("echo $$", "echo x");
    let script = format!(
        "(setsid {} &); ({left}) & until [ -e pid ] && [ -e left ]; do sleep 0.02; done",
        stubborn()
    );
    let args = ["--grace", "300ms", "-k", &key, "sh", "-c", &script];
    let ended = ended(start(server, &marks, &args)).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("has left processes behind"), "{ended:?}");
    goes_on(&marks, "alive").await;
}

/// Also where redlock is killed after its command.
#[tokio::test]
async fn a_daemon_outlives_a_redlock_that_was_killed_after_its_command() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let left = "trap '' TERM; echo $(exec sh -c 'echo $PPID') >left; exec sleep 60";
    let script = format!(
        "echo $$ >command; (setsid {} &); ({left}) >log 2>&1 & \
         until [ -s pid ] && [ -s left ]; do sleep 0.02; done",
        stubborn()
    );
    let child = start(server, &marks, &["--grace", "4s", "-k", &key, "sh", "-c", &script]);
    gone(&marks.there("command").await).await;
    send(&child, Signal::KILL);
    gone(&marks.read("left")).await;
    goes_on(&marks, "alive").await;
    assert_eq!(ended(child).await.code, 137);
}

/// Also where redlock, and its watchdog, learn of the end of the command after that of the lease.
#[tokio::test]
async fn a_daemon_outlives_a_command_that_ended_while_redlock_was_stopped() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = format!("(setsid {} &); until [ -e go ]; do sleep 0.02; done", stubborn());
    let args = ["--expire", "6s", "--grace", "1s", "-k", &key, "sh", "-c", &script];
    let child = start(server, &marks, &args);
    marks.there("pid").await;
    send(&child, Signal::STOP);
    marks.make("go");
    let (raw, lock) = (server.raw(), format!("lock:{key}"));
    eventually(SOON, || async { raw.get(&lock).await.is_none() }).await;
    goes_on(&marks, "alive").await;
    send(&child, Signal::CONT);
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    goes_on(&marks, "alive").await;
}

/// Nobody has ended it, and nobody has seen when it ended.
#[tokio::test]
async fn a_command_that_ended_behind_its_lease_is_not_taken_for_one_that_ended_in_time() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "echo $$ >pid; until [ -e go ]; do sleep 0.02; done";
    let args = ["--expire", "2s", "--grace", "500ms", "-k", &key, "sh", "-c", script];
    let child = start(server, &marks, &args);
    let pid = marks.there("pid").await;
    let id = child.id().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let watchdog = children.split_whitespace().find(|child| *child != pid).unwrap();
    send(&child, Signal::STOP);
    kill_process(Pid::from_raw(watchdog.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let (raw, lock) = (server.raw(), format!("lock:{key}"));
    eventually(SOON, || async { raw.get(&lock).await.is_none() }).await;
    marks.make("go");
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    eventually(SOON, || async { stat().contains(") Z ") }).await;
    send(&child, Signal::CONT);
    let ended = ended(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
}

/// Waits for another sign of life.
async fn goes_on(marks: &Marks, name: &str) {
    let last = marks.last_sign(name);
    eventually(SOON, || async { marks.last_sign(name) > last }).await;
}

/// A shell starts something, and becomes redlock, which is its parent then.
#[tokio::test]
async fn what_was_there_before_the_command_outlives_it() {
    let server = Server::start().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let before = "(while [ -e before ]; do touch of-before; sleep 0.02; done) & exec \"$@\"";
    let args = ["run", "--expire", "12s", "--grace", "1s", "-k", &key];
    let run = tool(&server.url(), &[&args[..], &["sh", "-c", STUBBORN]].concat());
    let run = run.as_std();
    let words = run.get_args().map(|word| word.to_str().unwrap());
    let line = ["-c", before, "sh", run.get_program().to_str().unwrap()];
    let words: Vec<&str> = line.into_iter().chain(words).collect();
    marks.make("before");
    let mut shell = program("sh", &server.url(), &words);
    let child = shell.current_dir(marks.path()).spawn().unwrap();
    let pid = marks.there("pid").await;
    server.raw().del(&format!("lock:{key}")).await;
    gone(&pid).await;
    goes_on(&marks, "of-before").await;
    std::fs::remove_file(marks.path().join("before")).unwrap();
    assert_eq!(ended(child).await.code, 76);
}
