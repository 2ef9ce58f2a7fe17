//! Child processes speak, stop, go on and die as they are told, and never outlive their parent.

use rustix::process::{Pid, test_kill_process};

use crate::support::process::Process;
use crate::support::supervise::Exit;
use crate::support::{eventually, ms, secs, time_passes, within};

fn runs(pid: &str) -> bool {
    test_kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap()).is_ok()
}

#[tokio::test]
async fn a_child_gets_its_arguments_and_tells_events() {
    let mut child = Process::spawn("echo", &["two words", "40", "2"]);
    assert_eq!(child.event("first").await, "two words");
    assert_eq!(child.event("sum").await, "42");
    assert!(child.wait(secs(10)).await.success());
}

#[tokio::test]
async fn a_panic_is_an_exit_code_and_a_message() {
    let mut child = Process::spawn("panic", &[]);
    assert_eq!(child.wait(secs(10)).await, Exit::Code(101));
    assert!(child.stderr().contains("as it was told"), "{}", child.stderr());
    let missing = tokio::spawn(async move { child.event("anything").await });
    let text = missing.await.expect_err("no event comes").into_panic();
    let text = text.downcast_ref::<String>().expect("a message");
    assert!(text.contains("it ended") && text.contains("as it was told"), "{text}");
}

#[tokio::test]
async fn an_unknown_role_fails() {
    let mut child = Process::spawn("no such role", &[]);
    assert_eq!(child.wait(secs(10)).await, Exit::Code(101));
}

#[tokio::test]
async fn a_stopped_child_does_nothing_until_it_goes_on() {
    let mut child = Process::spawn("tick", &[]);
    child.event("tick").await;
    child.sigstop();
    // What was under way when the signal came arrives first; a running child is never quiet.
    let child_is_quiet = async {
        loop {
            time_passes(ms(100)).await;
            if child.events().is_empty() {
                break;
            }
        }
    };
    within(secs(10), child_is_quiet).await;
    child.sigcont();
    child.event("tick").await;
    assert_eq!(child.sigkill(), Exit::Signal(9));
}

#[tokio::test]
async fn a_dropped_child_is_gone() {
    let mut child = Process::spawn("tick", &[]);
    child.event("tick").await;
    let pid = child.pid().to_string();
    assert!(runs(&pid));
    child.sigstop();
    drop(child);
    assert!(!runs(&pid));
}

#[tokio::test]
async fn what_a_killed_process_owned_dies_with_it() {
    let mut owner = Process::spawn("own-a-server", &[]);
    let server = owner.event("server").await;
    let (addr, pid) = server.split_once(' ').unwrap();
    let grandchild = owner.event("child").await;
    tokio::net::TcpStream::connect(addr).await.expect("the server listens");
    let leftover = format!("-{}-", owner.pid());
    let dirs = || {
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
        let names = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        names.filter(|name| name.starts_with("redlock-") && name.contains(&leftover)).count()
    };
    assert_eq!(dirs(), 2);
    owner.sigkill();
    eventually(secs(10), || async { !runs(pid) && !runs(&grandchild) && dirs() == 0 }).await;
}
