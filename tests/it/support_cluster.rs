//! The cluster of the suite does what its verbs say.

use fault_kit::{Cluster, Raw, Server, secs};

#[tokio::test]
async fn a_cluster_serves_all_slots_and_replaces_a_master_that_died() {
    let cluster = Cluster::start().await;
    let masters = cluster.masters().await;
    let ports: Vec<u16> = masters.iter().map(|master| master.port()).collect();
    let first_three: Vec<u16> = cluster.nodes()[..3].iter().map(Server::port).collect();
    assert_eq!(ports, first_three);
    for key in ["a", "b", "c", "d"] {
        cluster.master_of(key).await.raw().cmd(&["SET", key, "v"]).await;
    }
    assert_eq!(cluster.slot_of("{a}-1").await, cluster.slot_of("a").await);

    let old = cluster.master_of("a").await;
    // On one connection: WAIT counts what its own has written.
    let raw = old.raw();
    raw.cmd(&["SET", "a", "v"]).await;
    assert_eq!(raw.int(&["WAIT", "1", "20000"]).await, 1);
    old.kill9();
    let new = cluster.successor_of(old, "a").await;
    assert_eq!(new.raw().get("a").await.as_deref(), Some("v"), "its replica had it");
    old.start_again().await;
    cluster.until_ready().await;
    assert_eq!(cluster.master_of("a").await.port(), new.port(), "it came back as a replica");
}

#[tokio::test]
async fn a_frozen_master_is_replaced() {
    let cluster = Cluster::start().await;
    let old = cluster.master_of("a").await;
    old.freeze();
    assert_ne!(cluster.successor_of(old, "a").await.port(), old.port());
}

#[tokio::test]
async fn a_replica_takes_over_without_an_election() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let old = cluster.master_of("a").await;
    let raw = old.raw();
    raw.cmd(&["SET", "a", "v"]).await;
    assert_eq!(raw.int(&["WAIT", "1", "20000"]).await, 1);
    old.kill9();
    let new = cluster.take_over(old).await;
    assert_eq!(new.raw().get("a").await.as_deref(), Some("v"), "its replica had it");
    assert_eq!(cluster.successor_of(old, "a").await.port(), new.port());
}

#[tokio::test]
async fn a_patient_cluster_is_ready_as_well() {
    let cluster = Cluster::start_with(secs(15), &[]).await;
    assert_eq!(cluster.masters().await.len(), 3);
}

#[tokio::test]
async fn a_cluster_behind_proxies_hands_on_masters_and_slots_and_loses_nothing() {
    let (cluster, proxies) = Cluster::start_behind_proxies(secs(60), &[]).await;
    let urls: Vec<String> = proxies.iter().map(fault_kit::Proxy::url).collect();
    let raw = Raw::cluster(&urls);
    raw.cmd(&["SET", "a", "1"]).await;
    let first = cluster.master_of("a").await;
    let at = cluster.nodes().iter().position(|node| node.port() == first.port()).unwrap();
    assert!(proxies[at].count("SET") == 1, "clients were told its proxy");
    assert!(proxies[at].count("PSYNC") == 0, "a copy is none of a client's requests");

    let second = cluster.fail_over("a").await;
    assert_ne!(second.port(), first.port());
    assert_eq!(raw.get("a").await.as_deref(), Some("1"));
    raw.cmd(&["SET", "a", "2", "PX", "100000"]).await;
    cluster.move_slot("a").await;
    let third = cluster.master_of("a").await;
    assert_ne!(third.port(), second.port());
    assert_eq!(third.raw().get("a").await.as_deref(), Some("2"));
    assert!(third.raw().pttl("a").await > Some(secs(20)), "it moved with its expiry");
    assert_eq!(raw.get("a").await.as_deref(), Some("2"));
}
