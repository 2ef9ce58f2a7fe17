//! Servers whose wall clock jumps: leases end before their time.

use redlock::{LockError, NodeErrorKind, Redlock};

use crate::masters::{attempt, hold_without, on};
use crate::support::{Masters, Server, capture, eventually, secs, unique_prefix};

const MINUTE: i64 = 60;

/// Five masters; the clocks of the first two can be set.
async fn masters() -> Masters {
    Masters::start_each(5, |index, server| if index < 2 { server.with_clock() } else { server })
        .await
}

#[tokio::test]
async fn a_minority_that_jumps_a_minute_makes_no_second_holder_and_is_reported() {
    let masters = masters().await;
    let prefix = unique_prefix();
    let events = capture();
    let resident = on(masters.urls(), &prefix).build().await.unwrap();
    resident.lock("other").expire(secs(50)).run(async {}).await.unwrap();
    let (guard, _proxies) = hold_without(2, &masters, &prefix).await;
    for master in &masters[..2] {
        master.shift_clock(MINUTE);
    }
    // One that knew the clocks before, and one that never saw them.
    let stranger = on(masters.urls(), &prefix).build().await.unwrap();
    for client in [&resident, &stranger] {
        let error = attempt(client).await.expect_err("two holders at once");
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
    let unguarded = on(masters.urls(), &prefix).restart_guard(false).build().await.unwrap();
    let (guard, _proxies) = hold_without(2, &masters, &prefix).await;
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
