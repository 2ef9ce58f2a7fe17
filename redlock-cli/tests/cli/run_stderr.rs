//! `redlock run` whose stderr takes nothing, as its reader stands still.

use std::cell::RefCell;
use std::io::PipeReader;

use fault_kit::{Server, eventually, unique_prefix};
use rustix::process::Signal;
use tokio::process::Child;

use crate::support::{Marks, SOON, ended, full_pipe, run, send, tool};

/// The reader has to live as long as the test.
fn start_unread(server: &Server, marks: &Marks, args: &[&str]) -> (PipeReader, Child) {
    let (reader, writer) = full_pipe();
    let mut command = tool(&server.url_with_password(), &[&["run"], args].concat());
    let child = command.current_dir(marks.path()).stderr(writer).spawn().unwrap();
    (reader, child)
}

/// No signal would end a redlock that waits for the reader.
#[tokio::test]
async fn a_lock_that_is_held_is_told_by_the_code_alone() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    assert!(server.raw().set_foreign_lock(&format!("lock:{key}"), "web-3:x", SOON * 10).await);
    let (_reader, child) = start_unread(server, &marks, &["-n", "-k", &key, "true"]);
    assert_eq!(ended(child).await.code, 75);
}

/// A signal interrupts the question whether stderr has room.
#[tokio::test]
async fn signals_make_no_room_on_stderr() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    assert!(server.raw().set_foreign_lock(&format!("lock:{key}"), "web-3:x", SOON * 10).await);
    let (_reader, child) = start_unread(server, &marks, &["-n", "-k", &key, "true"]);
    let child = RefCell::new(child);
    // This signal is without effect on a process that does not handle it yet.
    let ended = eventually(SOON, || async {
        let ended = child.borrow_mut().try_wait().unwrap();
        if ended.is_none() {
            send(&child.borrow(), Signal::CONT);
        }
        ended
    });
    assert_eq!(ended.await.code(), Some(75));
}

#[tokio::test]
async fn a_loss_that_the_release_finds_is_told_by_the_code_alone() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let script = "echo on >on; until [ -e go ]; do sleep 0.02; done";
    let args = ["--expire", "120s", "-k", &key, "sh", "-c", script];
    let (_reader, child) = start_unread(server, &marks, &args);
    marks.there("on").await;
    server.raw().del(&format!("lock:{key}")).await;
    let other = run(server, &["run", "-n", "-k", &key, "true"]).await;
    assert_eq!(other.code, 0, "{other:?}");
    marks.make("go");
    assert_eq!(ended(child).await.code, 76);
}

/// The process that should have become the command would hold the lock.
#[tokio::test]
async fn a_command_that_is_not_there_holds_no_lock() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let (_reader, child) = start_unread(server, &marks, &["-k", &key, "./missing"]);
    assert_eq!(ended(child).await.code, 127);
    let (reader, child) = start_unread(server, &marks, &["-k", &key, "./missing"]);
    drop(reader);
    assert_eq!(ended(child).await.code, 127, "its reader has gone");
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}
