//! Servers whose wall clock jumps: leases end before their time.

use redlock::{LockError, LockGuard, NodeErrorKind, Redlock, RedlockBuilder, Wait};

use crate::support::{Proxy, Server, capture, eventually, secs, unique_prefix};

const MINUTE: i64 = 60;

/// Five masters; the clocks of the first two can be set.
async fn masters() -> Vec<Server> {
    let mut masters = Vec::new();
    for index in 0..5 {
        let server = Server::builder();
        let server = if index < 2 { server.with_clock() } else { server };
        masters.push(server.start().await);
    }
    masters
}

fn on(urls: Vec<String>, prefix: &str) -> RedlockBuilder {
    Redlock::builder().urls(urls).prefix(prefix).reply_timeout(secs(20))
}

/// Holds the lock on the first three masters: what is sent to the others gets lost.
async fn hold_three(masters: &[Server], prefix: &str) -> (LockGuard, Vec<Proxy>) {
    let proxies: Vec<Proxy> = masters[3..].iter().map(Proxy::start).collect();
    let direct = masters[..3].iter().map(Server::url);
    let urls = direct.chain(proxies.iter().map(Proxy::url)).collect();
    let redlock = on(urls, prefix).build().await.unwrap();
    for proxy in &proxies {
        proxy.drop_requests();
    }
    let guard = redlock.lock("k").expire(secs(50)).acquire().await.unwrap();
    (guard, proxies)
}

async fn attempt(redlock: &Redlock) -> Result<LockGuard, LockError> {
    redlock.lock("k").expire(secs(50)).wait(Wait::Never).acquire().await
}

fn urls(masters: &[Server]) -> Vec<String> {
    masters.iter().map(Server::url).collect()
}

#[tokio::test]
async fn a_minority_that_jumps_a_minute_makes_no_second_holder_and_is_reported() {
    let masters = masters().await;
    let prefix = unique_prefix();
    let events = capture();
    let resident = on(urls(&masters), &prefix).build().await.unwrap();
    resident.lock("other").expire(secs(50)).run(async {}).await.unwrap();
    let (guard, _proxies) = hold_three(&masters, &prefix).await;
    for master in &masters[..2] {
        master.shift_clock(MINUTE);
    }
    // One that knew the clocks before, and one that never saw them.
    let stranger = on(urls(&masters), &prefix).build().await.unwrap();
    for client in [&resident, &stranger] {
        let error = attempt(client).await.unwrap_err();
        guard.check().unwrap();
        if let LockError::Unavailable { nodes, .. } = &error {
            assert!(nodes.iter().all(|node| node.kind() == NodeErrorKind::Quarantined), "{error}");
        }
    }
    for master in &masters[..2] {
        let told = events.warnings_about(&master.addr().to_string());
        let told: Vec<_> = told.iter().map(|event| event.message.as_str()).collect();
        assert!(told.iter().any(|message| message.contains("clock jumped")), "{told:?}");
        assert!(told.iter().any(|message| message.contains("off those of the other")), "{told:?}");
        assert!(told.iter().any(|message| message.contains("no vote for now")), "{told:?}");
    }
}

#[tokio::test]
async fn without_the_guard_a_jump_makes_a_second_holder() {
    let masters = masters().await;
    let prefix = unique_prefix();
    let unguarded = on(urls(&masters), &prefix).restart_guard(false).build().await.unwrap();
    let (guard, _proxies) = hold_three(&masters, &prefix).await;
    for master in &masters[..2] {
        master.shift_clock(MINUTE);
    }
    let second = attempt(&unguarded).await.unwrap();
    assert!(guard.check().is_ok() && second.check().is_ok());
}

/// With one server there is nobody else to ask, but it is told.
#[tokio::test]
async fn a_jump_of_a_single_server_is_reported_in_both_directions() {
    for shift in [MINUTE, -MINUTE] {
        let server = Server::builder().with_clock().start().await;
        let events = capture();
        let redlock = Redlock::builder().url(server.url()).prefix(unique_prefix()).build();
        let redlock = redlock.await.unwrap();
        let guard = redlock.lock("k").expire(secs(2)).acquire().await.unwrap();
        server.shift_clock(shift);
        // A renewal brings the news.
        eventually(secs(20), || async {
            let told = events.warnings_about(&server.addr().to_string());
            told.iter().any(|event| event.message.contains("clock jumped"))
        })
        .await;
        drop(guard);
    }
}
