//! `redlock top` on a terminal.

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
