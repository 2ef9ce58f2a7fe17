//! The sentinels of the suite do what their verbs say.

use fault_kit::{Proxy, Sentinels, secs};

#[tokio::test]
async fn the_sentinels_agree_and_replace_a_master_that_died() {
    let set = Sentinels::start().await;
    let first = set.master().await;
    assert_eq!(first.port(), set.servers()[0].port());
    // On one connection: WAIT counts what its own has written.
    let raw = first.raw();
    raw.cmd(&["SET", "k", "v"]).await;
    assert_eq!(raw.int(&["WAIT", "2", "20000"]).await, 2);
    first.kill9();
    let second = set.successor_of(first).await;
    second.raw().cmd(&["SET", "k2", "v"]).await;
    assert_eq!(second.raw().get("k").await.as_deref(), Some("v"), "the replica had it");
    first.start_again().await;
    set.agree().await;
    assert_eq!(set.master().await.port(), second.port(), "it came back as a replica");
}

#[tokio::test]
async fn a_failover_can_be_ordered() {
    let set = Sentinels::start_with(secs(30), &[]).await;
    let first = set.master().await.port();
    assert_ne!(set.failover().await.port(), first);
}

#[tokio::test]
async fn one_sentinel_may_be_down() {
    let set = Sentinels::start().await;
    set.sentinels()[0].kill9();
    let first = set.master().await;
    first.freeze();
    let second = set.successor_of(first).await;
    assert_ne!(second.port(), first.port());
    set.sentinels()[0].start_again().await;
    set.master().await;
}

#[tokio::test]
async fn sentinels_name_the_proxies_of_their_servers() {
    let (set, proxies) = Sentinels::start_behind_proxies(secs(30), &[]).await;
    let named = |proxy: &Proxy| proxy.addr().port().to_string();
    let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinels::MASTER];
    let raw = set.sentinels()[0].raw();
    assert_eq!(fault_kit::lines_of(raw.cmd(&ask).await)[1], named(&proxies[0]));
    let master = set.master().await.raw();
    master.cmd(&["SET", "k", "v"]).await;
    assert_eq!(master.int(&["WAIT", "2", "20000"]).await, 2, "copied through the proxy");
    let next = set.failover().await;
    set.agree().await;
    let at = set.servers().iter().position(|server| server.port() == next.port()).unwrap();
    assert_eq!(fault_kit::lines_of(raw.cmd(&ask).await)[1], named(&proxies[at]));
    assert_eq!(next.raw().get("k").await.as_deref(), Some("v"));
}
