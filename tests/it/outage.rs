//! What an operator reads of an outage, at INFO and above, and what a scrape shows.

use std::time::{Duration, Instant};

use redlock::{LockError, Redlock, Wait};
use tokio::task::JoinSet;
use tracing::Level;

use crate::support::events::{Capture, Event};
use crate::support::{Server, capture, eventually, ms, secs, time_passes, unique_prefix};

const OUTAGE: Duration = Duration::from_secs(5);
const LABEL: &str = "outage-of-a-hundred";

/// Lines about a server, or the locks of this test.
fn lines(captured: &Capture, server: &Server) -> Vec<Event> {
    let address = server.addr().to_string();
    let all = captured.all().into_iter();
    let ours = all.filter(|event| event.contains(&address) || event.contains(LABEL));
    ours.filter(|event| event.level <= Level::INFO && event.target.starts_with("redlock")).collect()
}

fn text(lines: &[Event]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Calls one after the other, each with a lock of its own, of one kind or another: half of them
/// hold theirs for the whole outage and beyond, the others come and go.
async fn request(redlock: Redlock, n: usize, until: Instant) {
    let lock = || {
        let lock = redlock.lock(format!("k{n}")).label(LABEL).expire(secs(6));
        match n % 3 {
            0 => lock,
            1 => lock.read(),
            _ => lock.permits(2),
        }
    };
    if n.is_multiple_of(2) {
        let endless = lock().wait(Wait::Forever).run(std::future::pending::<()>());
        assert!(matches!(endless.await.unwrap_err(), LockError::Lost { .. }));
    }
    while Instant::now() < until {
        let _ = lock().wait(ms(100)).run(time_passes(ms(20))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_under_a_hundred_requests_is_told_in_a_few_lines() {
    let (captured, server) = (capture(), Server::start().await);
    let builder = Redlock::builder().url(server.url()).prefix(unique_prefix());
    let redlock = builder.client_name("web-1").build().await.unwrap();
    let until = Instant::now() + OUTAGE + secs(6);
    let mut requests = JoinSet::new();
    for n in 0..100 {
        requests.spawn(request(redlock.clone(), n, until));
    }
    let is_long = |key: &str| key[1..].parse::<usize>().unwrap().is_multiple_of(2);
    eventually(secs(20), || async {
        redlock.held().iter().filter(|held| is_long(held.key())).count() == 50
    })
    .await;
    server.kill9();
    time_passes(OUTAGE).await;
    server.start_again().await;
    captured.wait_for(secs(20), &server.addr().to_string(), "back after").await;
    while let Some(ended) = requests.join_next().await {
        ended.unwrap();
    }

    let told = lines(&captured, &server);
    let all = text(&told);
    assert!(told.len() < 20, "{all}");
    let (first, last) = (told.first().unwrap(), told.last().unwrap());
    assert!(first.level == Level::WARN && first.message.starts_with("unreachable: "), "{all}");
    assert_eq!(first.field("client"), Some("web-1"), "{all}");
    assert!(first.field("error").is_some_and(|error| error.contains("is the server running")));
    assert!(last.level == Level::INFO && last.message.starts_with("back after "), "{all}");
    let seconds = last.message.trim_start_matches("back after ").trim_end_matches(" s");
    let seconds: f64 = seconds.parse().unwrap();
    assert!((4.0..20.0).contains(&seconds), "{all}");
    assert!(last.field("failed").unwrap().parse::<u32>().unwrap() > 10, "{all}");

    let losses: Vec<_> = told.iter().filter(|line| line.message.contains("lost")).collect();
    assert!(losses.iter().all(|line| line.level == Level::WARN), "{all}");
    let more = losses.iter().filter_map(|line| line.field("count")?.parse::<usize>().ok());
    let in_full = losses.iter().filter(|line| line.message == "lease lost").count();
    assert!(more.sum::<usize>() + in_full >= 50, "{all}");
    // Servers before Redis 7.0 do not say whether they have loaded data.
    assert!(told.iter().any(|line| line.message.starts_with("restarted")), "{all}");
}

#[tokio::test]
async fn a_long_outage_stands_in_the_errors_and_its_end_is_noticed_without_a_call() {
    let (captured, server) = (capture(), Server::builder().append_only("always").start().await);
    let (address, prefix) = (server.addr().to_string(), unique_prefix());
    let redlock = Redlock::builder().url(server.url()).prefix(prefix).build().await.unwrap();
    drop(redlock.lock("k").acquire().await.unwrap());
    assert_eq!(redlock.shutdown(secs(10)).await, 0);
    server.kill9();
    let ask = || async {
        let error = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err().to_string();
        if error.contains(" s now (") { Ok(()) } else { Err(error) }
    };
    eventually(secs(20), ask).await;
    server.start_again().await;
    let back = captured.wait_for(secs(20), &address, "back after").await;
    assert_eq!(back.level, Level::INFO);
    let warnings = captured.warnings_about(&address);
    assert_eq!(warnings.len(), 1, "no data was lost: {warnings:?}");
    captured.wait_for(secs(20), &address, "restarted with the data of its log").await;
}

/// Also where nothing was asked when the client was built.
#[tokio::test]
async fn a_restart_without_data_is_told_by_each_client() {
    for is_lazy in [false, true] {
        let (captured, server) = (capture(), Server::start().await);
        let builder = Redlock::builder().url(server.url()).prefix(unique_prefix());
        let builder = if is_lazy { builder.lazy() } else { builder };
        let redlock = builder.build().await.unwrap();
        drop(redlock.lock("k").acquire().await.unwrap());
        assert!(redlock.health().await.is_available());
        server.kill9();
        let error = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        server.start_again().await;
        let address = server.addr().to_string();
        let told = captured.wait_for(secs(20), &address, "restarted without its data").await;
        assert_eq!(told.level, Level::WARN);
    }
}

/// One reply that is late does not make an outage.
#[tokio::test]
async fn a_reply_that_is_late_is_not_told() {
    let (captured, server) = (capture(), Server::start().await);
    let builder = Redlock::builder().url(server.url()).reply_timeout(ms(50));
    let redlock = builder.lazy().build().await.unwrap();
    drop(redlock.lock("k").wait(secs(20)).acquire().await.unwrap());
    server.freeze();
    let late = redlock.lock("k2").wait(Wait::Never).acquire().await.map(drop);
    server.thaw();
    assert!(matches!(late, Err(LockError::Unavailable { .. })), "{late:?}");
    eventually(secs(20), || async {
        redlock.lock("k3").wait(Wait::Never).acquire().await.map(drop).map_err(|e| e.to_string())
    })
    .await;
    let told = lines(&captured, &server);
    assert!(told.is_empty(), "{}", text(&told));
}

/// Connections are known by the name of their client.
#[tokio::test]
async fn connections_have_the_name_of_their_client() {
    let server = Server::start().await;
    let builder = Redlock::builder().url(server.url()).client_name("Büro 7");
    let redlock = builder.build().await.unwrap();
    drop(redlock.lock("k").acquire().await.unwrap());
    let raw = server.raw();
    eventually(secs(20), || async {
        let list = format!("{:?}", raw.cmd(&["CLIENT", "LIST"]).await);
        let named = list.matches(" name=redlock:B_ro_7 ").count();
        if named >= 2 { Ok(()) } else { Err(list) }
    })
    .await;
}
