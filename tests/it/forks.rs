//! Processes that fork: the child has nothing of what the parent holds, and can begin anew.

use redlock::Redlock;

use crate::fault_kit::NOISE;
use crate::support::process::Process;
use crate::support::{Server, unique_prefix};

async fn ends_well(role: &'static str, prefix: &str, events: &[(&str, &str)]) {
    let server = Server::shared().await;
    let mut process = Process::spawn(role, &[&server.url(), prefix]);
    for (name, expected) in events {
        assert_eq!(process.event_within(NOISE * 2, name).await, *expected, "{name}");
    }
    let ended = process.wait(NOISE * 4).await;
    assert!(ended.success(), "{ended:?} {}", process.stderr());
}

/// It is told, lets go of nothing, and has a client again once it makes one.
#[tokio::test]
async fn a_child_does_not_have_the_locks_of_its_parent() {
    let events = [
        ("check", "forked Lost 0ns"),
        ("acquire", "forked"),
        ("global", "forked"),
        ("lost", "Forked"),
        ("release", "forked"),
        ("drain", "0"),
        ("init", "true"),
        ("other", "true"),
        ("parents", "None"),
        ("ended", "0"),
        ("parent", "ok Ok(Released)"),
    ];
    ends_well("fork-with-a-lock", &unique_prefix(), &events).await;
}

/// It was initialized before it forked, and initializes again.
#[tokio::test]
async fn a_daemon_can_use_the_library() {
    let prefix = unique_prefix();
    let events = [("before", "forked"), ("body", "ok"), ("again", "true")];
    ends_well("fork-as-a-daemon", &prefix, &events).await;
    let server = Server::shared().await;
    let redlock = Redlock::builder().url(server.url()).prefix(prefix).build().await.unwrap();
    drop(redlock.lock("daemon").acquire().await.unwrap());
}

/// The body is in both processes; one of them goes on.
#[tokio::test]
async fn a_body_that_forks_ends_in_its_child() {
    let events = [
        ("child-await", "forked"),
        ("parent-await", "ok"),
        ("child-last", "forked"),
        ("parent-last", "ok"),
    ];
    ends_well("fork-in-a-body", &unique_prefix(), &events).await;
}

/// Whatever the other threads of the parent were doing, and whatever they had locked.
#[tokio::test]
async fn children_of_a_busy_process_do_not_hang() {
    ends_well("fork-while-others-lock", &unique_prefix(), &[("children", "100")]).await;
}
