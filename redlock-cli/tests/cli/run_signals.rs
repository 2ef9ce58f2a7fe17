//! `redlock run` and signals: passed on, given up while waiting, what a command leaves behind.

use fault_kit::{Server, eventually, unique_prefix, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Marks, SOON, STUBBORN, ended, gone, send, start, tool};

#[tokio::test]
async fn signals_are_passed_on() {
    let server = Server::shared().await;
    for (signal, script, code) in [
        (Signal::TERM, "trap 'exit 9' TERM", 9),
        (Signal::USR1, "trap 'exit 10' USR1", 10),
        (Signal::INT, "true", 130),
        (Signal::HUP, "true", 129),
        (Signal::QUIT, "ulimit -c 0", 131),
    ] {
        let (marks, key) = (Marks::new(), unique_prefix());
        let script = format!("{script}; echo $$ >pid; while [ -e pid ]; do sleep 0.02; done");
        let child = start(server, &marks, &["-k", &key, "sh", "-c", &script]);
        let pid = marks.there("pid").await;
        send(&child, signal);
        let ended = ended(child).await;
        assert_eq!(ended.code, code, "{signal:?}: {ended:?}");
        // What ended the command ends redlock as well, so that its caller knows.
        let ending = Some(signal.as_raw()).filter(|_| code > 128);
        assert_eq!(ended.signal, ending, "{signal:?}: {ended:?}");
        gone(&pid).await;
        assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
    }
}

#[tokio::test]
async fn a_stopped_command_gets_the_signal_that_continues_it() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "echo $$ >pid; kill -STOP $$; echo on >on";
    let child = start(server, &marks, &["-k", &key, "sh", "-c", script]);
    marks.there("pid").await;
    // Until the script has stopped, SIGCONT would be lost.
    let continued = eventually(SOON, || async {
        send(&child, Signal::CONT);
        Some(marks.read("on")).filter(|text| !text.is_empty())
    });
    continued.await;
    assert_eq!(ended(child).await.code, 0);
}

/// There is no terminal whose shell could continue it.
#[tokio::test]
async fn a_stopped_command_can_be_ended() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let mut child = start(server, &marks, &["-k", &key, "sh", "-c", "kill -STOP $$"]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    // A signal that comes before redlock has noticed the stop ends it unnoticed.
    let said = within(SOON, stderr.next_line()).await.unwrap().unwrap();
    assert!(said.contains("was stopped, and holds lock"), "{said}");
    send(&child, Signal::TERM);
    let ended = ended(child).await;
    assert_eq!(ended.signal, Some(Signal::TERM.as_raw()), "{ended:?}");
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}

#[tokio::test]
async fn waiting_is_given_up() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let (raw, lock) = (server.raw(), format!("lock:{key}"));
    assert!(raw.set_foreign_lock(&lock, "web-3:x", SOON * 10).await);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child = start(server, &marks, &["-w", "forever", "-k", &key, "touch", "ran"]);
        let queue = format!("{{lock:{key}}}:queue");
        eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
        send(&child, signal);
        let ended = ended(child).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (code, ""));
        assert_eq!(ended.signal, Some(signal.as_raw()));
        eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 0 }).await;
    }
    assert_eq!(marks.read("ran"), "");
    assert_eq!(raw.get(&lock).await.as_deref(), Some("web-3:x"));
}

/// The server may never answer again, and the command has ended already.
#[tokio::test]
async fn the_release_is_not_waited_for_when_a_signal_asks_to_end() {
    let server = Server::start().await;
    for signal in [Signal::INT, Signal::TERM] {
        let (marks, key) = (Marks::new(), unique_prefix());
        let script = "echo $$ >pid; until [ -e go ]; do sleep 0.02; done";
        let child = start(&server, &marks, &["--expire", "120s", "-k", &key, "sh", "-c", script]);
        let pid = marks.there("pid").await;
        server.freeze();
        marks.make("go");
        gone(&pid).await;
        send(&child, signal);
        let ended = ended(child).await;
        assert_eq!(ended.signal, Some(signal.as_raw()), "{ended:?}");
        // That would be the answer after the whole time that a server has.
        assert!(ended.stderr.contains("a signal asks redlock to end"), "{ended:?}");
        server.thaw();
    }
}

/// A container engine waits for ten seconds, and kills then.
#[tokio::test]
async fn a_command_that_a_signal_has_ended_leaves_its_release_two_seconds() {
    let server = Server::start().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "trap 'exit 0' TERM; echo $$ >pid; while :; do sleep 0.02; done";
    let child = start(&server, &marks, &["--expire", "120s", "-k", &key, "sh", "-c", script]);
    marks.there("pid").await;
    server.freeze();
    send(&child, Signal::TERM);
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.signal), (76, None), "{ended:?}");
    assert!(ended.stderr.contains("a signal asks redlock to end"), "{ended:?}");
    server.thaw();
}

#[tokio::test]
async fn a_signal_after_the_end_of_the_command_ends_redlock() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let args = ["--grace", "20s", "--expire", "60s", "-k", &key];
    let script = ["sh", "-c", "echo $$ >pid; sleep 60 & exit 0"];
    let child = start(server, &marks, &[&args[..], &script].concat());
    gone(&marks.there("pid").await).await;
    send(&child, Signal::TERM);
    let ended = ended(child).await;
    assert_eq!(ended.signal, Some(Signal::TERM.as_raw()), "{ended:?}");
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}

/// What goes on without its lock would be a second holder.
#[tokio::test]
async fn what_a_command_leaves_behind_ends_before_the_lock_is_free() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = format!("({STUBBORN}) & until [ -e go ]; do sleep 0.02; done; exit 5");
    let script = script.replace("$$", "$(exec sh -c 'echo $PPID')");
    let args = ["--grace", "500ms", "-k", &key, "sh", "-c", &script];
    let child = start(server, &marks, &args);
    let pid = marks.there("pid").await;
    let (raw, lock) = (server.raw(), format!("lock:{key}"));
    assert!(raw.get(&lock).await.is_some());
    marks.make("go");
    let ended = ended(child).await;
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.stderr.contains("has left processes behind"), "{ended:?}");
    let last = marks.last_sign("alive");
    gone(&pid).await;
    assert_eq!(marks.last_sign("alive"), last);
    assert_eq!(raw.get(&lock).await, None);
}

/// The end of a pipeline, as of `exec > >(tee log)` in bash.
#[tokio::test]
async fn what_a_command_leaves_behind_may_end_by_itself() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "(sleep 0.3; echo done >done) & exit 0";
    let args = ["--grace", "20s", "-k", &key, "sh", "-c", script];
    let ended = ended(start(server, &marks, &args)).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(marks.read("done"), "done");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_ignored_signal_stays_ignored() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "trap 'echo on >on' USR1; echo $$ >pid; \
                  until [ -e go ]; do sleep 0.02; done; exit 6";
    let line = "trap '' HUP; exec \"$@\"";
    let run = tool(&server.url(), &["run", "-k", &key, "sh", "-c", script]);
    let run = run.as_std();
    let mut nohup = tokio::process::Command::new("sh");
    nohup.args(["-c", line, "nohup"]).arg(run.get_program()).args(run.get_args());
    nohup.env("REDLOCK_URLS", server.url()).env_remove("REDLOCK_PREFIX");
    let child = nohup.current_dir(marks.path()).kill_on_drop(true).spawn().unwrap();
    marks.there("pid").await;
    send(&child, Signal::HUP);
    // The signals arrive in the order of their numbers: the first one has been ignored by then.
    send(&child, Signal::USR1);
    marks.there("on").await;
    marks.make("go");
    assert_eq!(ended(child).await.code, 6);
}
