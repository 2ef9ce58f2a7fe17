//! `redlock run` and orphans: processes below the command whose parent has ended.

use fault_kit::{Server, secs, unique_prefix, within};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use tokio::process::Command;

use crate::support::{Marks, ended, gone, start};

/// Set where a test runs in a process of its own.
const ALONE: &str = "REDLOCK_TEST_ALONE";

/// Runs a test of this file again, in a process of its own. `false`: this is that process.
async fn elsewhere(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("run_orphans::{test}");
    command.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").kill_on_drop(true);
    let output = within(secs(120), command.output()).await.unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{output:?}");
    true
}

/// As in a container whose first process does not reap.
#[tokio::test]
async fn an_orphan_that_has_ended_is_no_process_left_behind() {
    if elsewhere("an_orphan_that_has_ended_is_no_process_left_behind").await {
        return;
    }
    // Orphans below this process are its children now, and it does not reap them.
    set_child_subreaper(Some(getpid())).unwrap();
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "(sleep 0.2 &); exit 0";
    let args = ["--grace", "20s", "-k", &key, "sh", "-c", script];
    let ended = ended(start(server, &marks, &args)).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}

/// A service would collect them for as long as it runs.
#[tokio::test]
async fn an_orphan_that_has_left_the_group_is_reaped_while_the_command_runs() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "(setsid sh -c 'echo $$ >orphan' &); until [ -e go ]; do sleep 0.02; done; exit 3";
    let child = start(server, &marks, &["-k", &key, "sh", "-c", script]);
    gone(&marks.there("orphan").await).await;
    marks.make("go");
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (3, ""));
}

/// Its parent has left the group, and never reaps it.
#[tokio::test]
async fn a_process_that_has_ended_is_no_process_left_behind() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let apart = "exec setsid sh -c 'echo $$ >parent; exec sleep 60'";
    let script = format!("(sleep 0.2 & {apart}) >log 2>&1 & until [ -s parent ]; do :; done");
    let args = ["--grace", "20s", "-k", &key, "sh", "-c", &script];
    let ended = ended(start(server, &marks, &args)).await;
    let parent = Pid::from_raw(marks.read("parent").parse().unwrap()).unwrap();
    kill_process(parent, Signal::KILL).unwrap();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}

/// A process of the group that was killed stays in it until it is reaped: here its parent, outside
/// of the group, does not do that before the lease ends, and may go on as the command is over.
#[tokio::test]
async fn the_watchdog_is_silent_after_redlock_has_killed_the_group() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let apart = "exec setsid sh -c 'echo $$ >parent; exec sleep 60'";
    let stubborn = "trap '' TERM; sleep 60";
    let script = format!("({stubborn} & {apart}) >log 2>&1 & until [ -s parent ]; do :; done");
    // A long lease: its margins, which a machine that stands still uses up, grow with it.
    let lease = ["--expire", "15s", "--max-renew", "0", "--grace", "4s"];
    let args = [&lease[..], &["-k", &key, "sh", "-c", &script]].concat();
    let ended = ended(start(server, &marks, &args)).await;
    let parent = Pid::from_raw(marks.read("parent").parse().unwrap()).unwrap();
    kill_process(parent, Signal::KILL).unwrap();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("SIGTERM, and SIGKILL in"), "{ended:?}");
    for said in ["stood still", "was lost while the command ran"] {
        assert!(!ended.stderr.contains(said), "{ended:?}");
    }
}
