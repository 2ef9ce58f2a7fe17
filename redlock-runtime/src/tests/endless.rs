//! A lock whose key has no expiry, so that it does not end by itself: operators are told.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use tracing::Level;
use tracing::field::{Field, Visit};

use super::hear::{Hearing, hear};
use super::server::Server;
use crate::key::LockKey;
use crate::options::Wait;

const MINUTE: Duration = Duration::from_secs(60);
const TOLD: &str = "the lock does not end by itself";

/// A server with such a lock.
fn server() -> Arc<Server> {
    let server = Server::new();
    server.node.lock().unwrap().set_endless(&LockKey::new("", "k").unwrap());
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
fn warnings() -> (Arc<Mutex<Vec<String>>>, Hearing) {
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
