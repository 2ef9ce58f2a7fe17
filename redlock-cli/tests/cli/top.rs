//! `redlock top` on a terminal.

use std::os::unix::process::ExitStatusExt;

use fault_kit::{Server, eventually, secs, unique_prefix};
use rustix::process::Signal;

use crate::support::{Marks, SOON};
use crate::terminal::Terminal;

const OWN_SCREEN: &str = "\x1b[?1049h";
const FORMER_SCREEN: &str = "\x1b[?1049l";
const SHOWN_CURSOR: &str = "\x1b[?25h";

#[tokio::test]
async fn a_signal_ends_it_after_the_terminal_was_given_back() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    assert!(server.raw().set_foreign_lock(&format!("lock:{key}"), "web-3:x", secs(600)).await);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        let words = [env!("CARGO_BIN_EXE_redlock"), "top", &key];
        let mut terminal = Terminal::start(server, &marks, &words);
        terminal.shows(OWN_SCREEN).await;
        terminal.shows(&key).await;
        assert!(!terminal.is_cooked());
        terminal.send(signal);
        assert_eq!(terminal.ended_by().await, Some(signal.as_raw()), "{}", terminal.screen());
        terminal.shows(FORMER_SCREEN).await;
        terminal.shows(SHOWN_CURSOR).await;
        assert!(terminal.is_cooked(), "{signal:?}");
    }
}

#[tokio::test]
async fn a_key_ends_it_as_well() {
    let server = Server::shared().await;
    let marks = Marks::new();
    let words = [env!("CARGO_BIN_EXE_redlock"), "top", "no-such-lock"];
    let mut terminal = Terminal::start(server, &marks, &words);
    terminal.shows(OWN_SCREEN).await;
    eventually(SOON, || async { !terminal.is_cooked() }).await;
    terminal.press(b"q");
    assert_eq!(terminal.ended_by().await, None);
    terminal.shows(FORMER_SCREEN).await;
    assert!(terminal.is_cooked());
}

/// With the signal for it, or without where it was started to ignore that (`nohup`).
#[tokio::test]
async fn it_ends_with_its_terminal() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    assert!(server.raw().set_foreign_lock(&format!("lock:{key}"), "web-3:x", secs(600)).await);
    for (trap, by_signal) in [("", Signal::HUP.as_raw()), ("trap '' HUP;", 0)] {
        let script = format!("{trap} exec {} top {key}", env!("CARGO_BIN_EXE_redlock"));
        let terminal = Terminal::start(server, &marks, &["sh", "-c", &script]);
        terminal.shows(OWN_SCREEN).await;
        terminal.shows(&key).await;
        let ended = terminal.gone().await;
        // The signal may come a moment behind the end of the terminal.
        let is_expected = ended.code() == Some(141) || ended.signal() == Some(by_signal);
        assert!(is_expected, "{trap:?}: {ended:?}");
    }
}
