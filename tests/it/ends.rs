//! Processes that end normally, and what they let go of right before: nothing is left behind.

use std::time::Instant;

use redlock::Redlock;

use crate::busy;
use crate::fault_kit::{LONG, NOISE, nothing_left};
use crate::support::process::Process;
use crate::support::proxy::{Then, contains};
use crate::support::{Proxy, Server, ms, secs, unique_prefix};

/// Runs so many children in each flavor of runtime, and sees that no lock is left.
async fn children_leave_nothing(count: usize, role: &'static str, url: &str, arguments: &[&str]) {
    for flavor in ["current", "multi"] {
        let prefix = unique_prefix();
        for n in 0..count {
            let key = format!("k{n}");
            let args = [&[url, &prefix, &key, flavor], arguments].concat();
            let mut child = Process::spawn(role, &args);
            let ended = child.wait(NOISE * 4).await;
            assert!(ended.success(), "{flavor} {n}: {ended:?} {}", child.stderr());
        }
        // The server may still have to read what the last one sent.
        nothing_left(&Server::shared().await.raw(), &prefix, NOISE).await;
    }
}

fn slow_proxy(server: &Server, one_way: u64) -> Proxy {
    let proxy = Proxy::start(server);
    proxy.delay_requests(ms(one_way));
    proxy.delay_replies(ms(one_way));
    proxy
}

/// Over the connection of the background thread, and over one of the runtime that ends.
#[tokio::test]
async fn a_background_release_is_the_last_thing_a_process_does() {
    let _turn = busy::turn().await;
    let server = Server::shared().await;
    for calls in ["1", "200"] {
        children_leave_nothing(12, "call-and-end", &server.url(), &[calls]).await;
    }
    let far = slow_proxy(server, 2);
    children_leave_nothing(6, "call-and-end", &far.url(), &["100"]).await;
}

/// It had left, and its connection broke, or fell silent: the background thread repeats it.
#[tokio::test]
async fn a_background_release_that_is_cut_or_lost_is_repeated_before_its_process_ends() {
    let server = Server::shared().await;
    // Only after many calls its connection is not the one that repeats it.
    let cases = [("1", Then::CutRequest), ("200", Then::CutRequest), ("200", Then::LoseRequest)];
    for (calls, then) in cases {
        for flavor in ["current", "multi"] {
            let (proxy, prefix) = (Proxy::start(server), unique_prefix());
            // The first asks for the lock, the second releases it.
            let failed = proxy.when_nth(2, contains("lastly"), then.clone());
            let args = [&proxy.url(), &prefix, "lastly", flavor, calls];
            let mut child = Process::spawn("call-and-end", &args);
            assert!(child.wait(NOISE * 4).await.success(), "{}", child.stderr());
            failed.fired().await;
            nothing_left(&server.raw(), &prefix, NOISE).await;
        }
    }
}

/// Wherever the cancellation falls: while the command is on its way, or its answer.
#[tokio::test]
async fn a_call_that_is_cancelled_is_the_last_thing_a_process_does() {
    let _turn = busy::turn().await;
    for one_way in [1, 3] {
        let far = slow_proxy(Server::shared().await, one_way);
        for (calls, millis) in [("1", "1"), ("1", "2"), ("1", "5"), ("100", "2")] {
            children_leave_nothing(6, "cancel-and-end", &far.url(), &[calls, millis]).await;
        }
    }
}

/// Neither the lock that it had nor the read lock is left.
#[tokio::test]
async fn a_downgrade_that_is_cancelled_is_the_last_thing_a_process_does() {
    let _turn = busy::turn().await;
    let far = slow_proxy(Server::shared().await, 20);
    for millis in ["10", "30"] {
        children_leave_nothing(3, "downgrade-and-end", &far.url(), &[millis]).await;
    }
}

/// A lock that is released afterwards is not handed to it.
#[tokio::test]
async fn a_waiter_that_is_cancelled_is_the_last_thing_a_process_does() {
    let server = Server::shared().await;
    let prefix = unique_prefix();
    let redlock = Redlock::builder().url(server.url()).prefix(prefix.as_str());
    let redlock = redlock.expire(LONG).build().await.unwrap();
    for (n, flavor) in ["current", "multi"].into_iter().cycle().take(12).enumerate() {
        let guard = redlock.lock(format!("k{n}")).acquire().await.unwrap();
        let args = [&server.url(), &prefix, &format!("k{n}"), flavor];
        let mut child = Process::spawn("wait-and-end", &args);
        child.event("waiting").await;
        assert!(child.wait(NOISE * 2).await.success(), "{}", child.stderr());
        let left = server.raw().keys(&format!("*{prefix}*queue*")).await;
        assert!(left.is_empty(), "{flavor} {n}: it stands in the queue");
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_thousand_guards_are_dropped_as_the_last_thing_a_process_does() {
    let far = slow_proxy(Server::shared().await, 1);
    children_leave_nothing(1, "drop-many-and-end", &far.url(), &["1000"]).await;
}

/// It does not keep a process for longer than is documented.
#[tokio::test]
async fn a_silent_server_does_not_keep_a_process() {
    let proxy = Proxy::start(Server::shared().await);
    // The first asks for the lock, the second releases it.
    let lost = proxy.when_nth(2, contains("silenced"), Then::LoseRequest);
    let start = Instant::now();
    let args = [&proxy.url(), &unique_prefix(), "silenced", "60000"];
    let mut child = Process::spawn("drop-and-end", &args);
    assert!(child.wait(secs(30)).await.success(), "{}", child.stderr());
    lost.fired().await;
    assert!(start.elapsed() < secs(12), "{:?}", start.elapsed());
}
