use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::time::{sleep, timeout};

use super::*;
use crate::backend::redis::connection::{MetServer, Scripted, unidentified};

const SECOND: Duration = Duration::from_secs(1);

/// A distant server: its connections take three seconds to be made, and are counted.
#[derive(Default)]
struct Far {
    made: AtomicU32,
}

impl Source for Far {
    type Connection = Scripted;

    // Without a second attempt.
    const LEADS_TO_ONE: bool = false;

    async fn connect(&self) -> RedisResult<Scripted> {
        self.made.fetch_add(1, Ordering::Relaxed);
        sleep(3 * SECOND).await;
        Ok(Scripted::default())
    }
}

#[tokio::test(start_paused = true)]
async fn a_connect_outlives_those_who_wait_for_it() {
    let link = SharedConnection::new(unidentified(Far::default()));
    for _ in 0..2 {
        assert!(timeout(SECOND, link.borrow()).await.is_err());
    }
    assert!(timeout(2 * SECOND, link.borrow()).await.unwrap().is_ok());
    assert_eq!(link.source.inner.made.load(Ordering::Relaxed), 1);
    assert!(link.is_connected());
}

/// Refuses connections.
struct Refusing;

impl Source for Refusing {
    type Connection = Scripted;

    async fn connect(&self) -> RedisResult<Scripted> {
        Err(broken())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_asked_for_some_dozens_of_connections_a_second() {
    let link = SharedConnection::new(unidentified(Refusing));
    let begun = Instant::now();
    for _ in 0..1_000 {
        assert!(link.borrow().await.is_err());
    }
    assert!(begun.elapsed() > 30 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_of_use_is_replaced_at_once_and_others_are_not() {
    let link = SharedConnection::new(unidentified(Scripted::default()));
    let begun = Instant::now();
    for _ in 0..1_000 {
        link.discard(&link.borrow().await.unwrap());
    }
    assert!(begun.elapsed() > 30 * SECOND, "{:?}", begun.elapsed());
    let loan = link.borrow().await.unwrap();
    sleep(SECOND).await;
    link.discard(&loan);
    let discarded = Instant::now();
    assert!(link.borrow().await.is_ok() && discarded.elapsed().is_zero());
}

/// A cluster of which one part does not answer, however often a connection is made.
#[derive(Default)]
struct Partial {
    made: AtomicU32,
}

impl Source for Partial {
    type Connection = Scripted;

    const LEADS_TO_ONE: bool = false;

    async fn connect(&self) -> RedisResult<Scripted> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Scripted::default())
    }

    async fn leads(_: &mut Scripted, key: Option<&str>) -> bool {
        key.is_none()
    }
}

#[tokio::test(start_paused = true)]
async fn commands_that_fail_in_a_row_do_not_replace_a_connection_each() {
    let link = SharedConnection::new(unidentified(Partial::default()));
    let loan = link.borrow().await.unwrap();
    let fail = async |count| {
        let made = || link.source.inner.made.load(Ordering::Relaxed);
        let before = made();
        for _ in 0..count {
            link.failed(&loan, "k");
            sleep(SECOND / 1_000).await;
        }
        made() - before
    };
    assert_eq!(fail(1_000).await, 3, "after 0, 0.2 and 0.6 s");
    let replaced = fail(10_000).await;
    assert!((9..=11).contains(&replaced), "{replaced} in ten seconds");
    sleep(2 * SECOND).await;
    assert_eq!(fail(1_000).await, 3, "it is another outage");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_given_as_long_to_answer_as_it_took_to_be_made() {
    let link = SharedConnection::new(unidentified(Scripted::default()));
    let install = |took| {
        let connection = Batching::new(Scripted::default(), MetServer::unknown());
        link.current.lock().install(&link.source, connection, took)
    };
    let before = |silence| CLOCK.now().minus(silence);
    let loan = install(SECOND);
    let now = CLOCK.now();
    assert!(!loan.note_silence(now, now.plus(SECOND / 2)), "its answer may be on the way");
    loan.heard();
    assert!(!loan.note_silence(now.plus(SECOND), now.plus(SECOND * 3 / 2)), "it has answered");
    assert!(loan.note_silence(now.plus(2 * SECOND), now.plus(2 * SECOND)), "since the first");

    for took in [SECOND / 2, 100 * SECOND] {
        let loan = install(took);
        // The command was sent just now, however long this test takes.
        link.gave_no_answer(&loan, CLOCK.now().plus(3600 * SECOND), "k");
        loan.heard();
        assert!(link.is_connected() && !link.fell_silent());
        link.gave_no_answer(&loan, before(2 * SECOND), "k");
        assert!(!link.is_connected() && link.fell_silent());
    }
}

/// The background thread dies after a local connection was made, and is replaced.
#[tokio::test]
async fn the_timers_of_a_local_connection_are_those_of_a_background_thread_that_lives() {
    let mut link = SharedConnection::new(unidentified(Scripted::default())).on(Handle::current());
    for _ in 0..2 {
        let (end, silence) = (Instant::now() + SECOND / 100, pin!(std::future::pending::<()>()));
        assert!(link.run_until(end, silence).await.is_none());
        let timers = link.with_timers(Handle::current).id();
        assert_eq!(timers, background_thread::handle().unwrap().id());
        link.home.as_mut().unwrap().background = Some(BackgroundThread::dead());
    }
}
