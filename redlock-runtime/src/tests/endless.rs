//! A lock whose key has no expiry, so that it does not end by itself: operators are told.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use tracing::Level;
use tracing::field::{Field, Visit};

use super::fake::MINUTE;
use super::hear::{Hearing, hear};
use super::server::Server;
use crate::error::LockError;
use crate::key::LockKey;
use crate::options::Wait;

const TOLD: &str = "the lock does not end by itself";

/// A server with such a lock.
fn server() -> Arc<Server> {
    held_by("old-cron")
}

fn held_by(value: &str) -> Arc<Server> {
    let server = Server::new();
    server.node.lock().unwrap().set_endless(&LockKey::new("", "k").unwrap(), value);
    server
}

/// The fields of an event, in one line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

/// The warnings from now on.
pub(super) fn warnings() -> (Arc<Mutex<Vec<String>>>, Hearing) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hearing = hear({
        let told = Arc::clone(&told);
        move |event| {
            if *event.metadata().level() == Level::WARN {
                let mut line = Line(String::new());
                event.record(&mut line);
                told.lock().unwrap().push(line.0);
            }
        }
    });
    (told, hearing)
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_an_end_tells_it_once() {
    for leads in [false, true] {
        let (server, (told, _hearing)) = (server(), warnings());
        let redlock = server.client();
        let request = redlock.lock("k").label("nightly").wait(Wait::Forever);
        let waiter = tokio::spawn(async move {
            if leads { request.lead(|_| async {}).await } else { request.run(async {}).await }
        });
        sleep(10 * MINUTE).await;
        {
            let told = told.lock().unwrap();
            assert_eq!(told.len(), 1, "{told:?}");
            let shown = ["k", "nightly", "old-cron"].map(|field| format!("{field:?}"));
            assert!(told[0].contains(TOLD), "{told:?}");
            assert!(shown.iter().all(|field| told[0].contains(field)), "{told:?}");
        }
        server.remove("k");
        waiter.await.unwrap().unwrap();
    }
}

/// They ask at different times: by themselves, with the poller, and with one command for all keys.
#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_tell_it_and_many_of_them_a_summary() {
    let server = server();
    server.acquires_all();
    for requests in [1, 10] {
        let (told, _hearing) = warnings();
        let redlock = server.client();
        for _ in 0..requests {
            assert!(redlock.lock("k").try_acquire().await.unwrap().is_none());
            let wait = redlock.lock("k").wait(Duration::from_secs(1));
            assert_eq!(wait.acquire().await.unwrap_err().retry_after(), None);
            assert!(redlock.lock_all(["k", "l"]).try_acquire().await.unwrap().is_none());
        }
        sleep(MINUTE).await;
        let told = told.lock().unwrap();
        let in_full = told.iter().filter(|line| line.contains(TOLD)).count();
        assert_eq!(in_full, 3, "{told:?}");
        let summary = "more calls met locks that do not end by themselves";
        assert_eq!(told.iter().any(|line| line.contains(summary)), requests > 1, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_ends_is_not_told() {
    let (server, (told, _hearing)) = (Server::new(), warnings());
    server.set("k", MINUTE);
    let redlock = server.client();
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_none());
    drop(redlock.lock("k").wait(2 * MINUTE).acquire().await.unwrap());
    assert!(told.lock().unwrap().is_empty(), "{told:?}");
}

/// What another program has written may be any text, also none, or a long one of many lines.
#[tokio::test(start_paused = true)]
async fn any_value_of_the_key_is_a_holder() {
    let long = "x".repeat(5_000_000);
    let lines = format!("web-1:0\nERROR paid \u{202e}{long}");
    for (value, shown) in [("", "\"\""), (&*long, "xxx..."), (&*lines, "web-1:0\\nERROR paid")] {
        let (server, (told, _hearing)) = (held_by(value), warnings());
        let redlock = server.client();
        for wait in [Wait::Never, Wait::AtMost(Duration::from_secs(1))] {
            let error = redlock.lock("k").wait(wait).acquire().await.map(drop).unwrap_err();
            assert_eq!(error.retry_after(), None, "a person has to delete the key");
            let LockError::Timeout { holder: Some(holder), is_endless: true, .. } = &error else {
                panic!("{error}")
            };
            assert!(value.starts_with(holder.trim_end_matches('.')) && holder.len() < 400);
            for text in [error.to_string(), format!("{error:?}")] {
                let name = format!("; held by {}", shown.trim_end_matches("..."));
                assert!(text.contains(&name) && text.len() < 1_000, "{text}");
                assert!(!text.contains(['\n', '\u{202e}']), "{text:?}");
            }
        }
        let told = told.lock().unwrap();
        let field = format!("{shown:?}");
        let has = |line: &String| line.contains(&field[1..field.len() - 1]);
        assert!(!told.is_empty() && told.iter().all(has), "{field}: {told:?}");
        assert!(told.iter().all(|line| line.len() < 1_000), "{told:?}");
    }
}

/// To ask again at once is of no use there.
#[tokio::test(start_paused = true)]
async fn whoever_has_no_signals_yet_asks_for_an_endless_lock_once_before_it_enqueues() {
    let server = server();
    server.set_unconnected(true);
    let waiter = tokio::spawn(server.client().lock("k").wait(Wait::Forever).acquire());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(server.take_verbs(), ["acquire", "join"]);
    waiter.abort();
}
