//! Several servers at once, and servers with another time of day.

use crate::support::{Masters, Proxy, Replicated, eventually, secs};

#[tokio::test]
async fn masters_are_independent_of_each_other() {
    let masters = Masters::start(3).await;
    masters[0].raw().cmd(&["SET", "k", "v"]).await;
    assert_eq!(masters[1].raw().get("k").await, None);
    masters[0].kill9();
    assert_eq!([masters[0].is_running(), masters[2].is_running()], [false, true]);
    assert_eq!(masters.urls()[2], masters[2].url());
}

#[tokio::test]
async fn a_promoted_replica_leads_the_others() {
    let servers = Replicated::start(2).await;
    servers.master().raw().cmd(&["SET", "k", "1"]).await;
    let raws = [0, 1, 2].map(|n| servers.server(n).raw());
    let has = |n: usize, value| {
        let raw = &raws[n];
        eventually(secs(10), move || async move { raw.get("k").await.as_deref() == Some(value) })
    };
    has(1, "1").await;
    servers.promote(1).await;
    servers.linked().await;
    servers.server(1).raw().cmd(&["SET", "k", "2"]).await;
    has(0, "2").await;
    has(2, "2").await;
    servers.server(0).raw().try_cmd(&["SET", "k", "3"]).await.expect_err("a replica now");
}

#[tokio::test]
async fn a_proxy_leads_to_another_server() {
    let masters = Masters::start(2).await;
    let proxy = Proxy::start(&masters[0]);
    masters[0].raw().cmd(&["SET", "k", "first"]).await;
    masters[1].raw().cmd(&["SET", "k", "second"]).await;
    let raw = crate::support::Raw::new(&proxy.url());
    assert_eq!(raw.get("k").await.as_deref(), Some("first"));
    proxy.lead_to(&masters[1]);
    assert_eq!(raw.get("k").await.as_deref(), Some("first"), "an open connection stays");
    proxy.cut_all();
    eventually(secs(20), || async { raw.get("k").await.as_deref() == Some("second") }).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_wall_clock_of_a_server_jumps() {
    use crate::support::Server;
    let server = Server::builder().with_clock().append_only("always").start().await;
    let raw = server.raw();
    let now = || async {
        let parts = raw.cmd(&["TIME"]).await;
        let parts: (i64, i64) = deadpool_redis::redis::from_redis_value(parts).unwrap();
        parts.0
    };
    let (start, wall) = (now().await, std::time::UNIX_EPOCH.elapsed().unwrap().as_secs());
    assert!(start.abs_diff(wall.try_into().unwrap()) < 20, "the true time at first");
    raw.cmd(&["SET", "long", "v", "EX", "100"]).await;
    raw.cmd(&["SET", "short", "v", "EX", "50"]).await;

    // A server may answer once more with the time that it looked up before.
    let shows = async |range: std::ops::Range<i64>| {
        eventually(secs(20), || async { range.contains(&(now().await - start)) }).await;
    };
    server.shift_clock(60);
    shows(60..80).await;
    let left = raw.pttl("long").await.expect("it has not expired");
    assert!(left > secs(20) && left <= secs(40), "{left:?}");
    assert_eq!(raw.pttl("short").await, None, "expired before its time");

    server.restart_keeping_data().await;
    assert!((60..100).contains(&(now().await - start)), "still ahead after a restart");
    server.shift_clock(-120);
    shows(-60..40).await;
    assert!(raw.pttl("long").await.expect("it lives on") > secs(100));
}
