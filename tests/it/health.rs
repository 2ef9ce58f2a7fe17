//! `health` on every topology: which servers answer, since when, and what is wrong with the others.

use std::time::{Instant, SystemTime};

use deadpool_redis::{Config, Runtime};
use redlock::{Health, NodeErrorKind, NodeHealth, Redlock, Wait};

use crate::support::{
    Cluster, Masters, Replicated, Sentinels, Server, capture, eventually, ms, secs, unique_prefix,
};

fn usable(health: &Health) -> Vec<bool> {
    health.nodes().iter().map(NodeHealth::is_usable).collect()
}

#[track_caller]
fn error_of(health: &Health) -> NodeErrorKind {
    health.nodes()[0].error().expect("an error").kind()
}

async fn until(redlock: &Redlock, expected: &[bool]) -> Health {
    eventually(secs(30), || async {
        let health = redlock.health().await;
        if usable(&health) == expected { Ok(()) } else { Err(health.to_string()) }
    })
    .await;
    redlock.health().await
}

#[tokio::test]
async fn a_server_that_comes_and_goes() {
    let server = Server::start().await;
    let redlock = Redlock::builder().url(server.url()).prefix(unique_prefix()).build().await;
    let redlock = redlock.unwrap();
    let before = redlock.health().await;
    assert!(before.is_available(), "{before}");
    let node = &before.nodes()[0];
    assert_eq!(node.node(), server.url());
    assert!(node.round_trip().unwrap() < secs(1) && node.since() <= SystemTime::now());
    assert_eq!(redlock.health().await.nodes()[0].since(), node.since());

    server.kill9();
    let down = until(&redlock, &[false]).await;
    assert_eq!(error_of(&down), NodeErrorKind::Unreachable);
    assert!(!down.is_available() && !down.nodes()[0].is_reachable(), "{down}");
    assert!(down.nodes()[0].since() > node.since());
    server.start_again().await;
    let up = until(&redlock, &[true]).await;
    assert!(up.nodes()[0].since() > down.nodes()[0].since());
    assert!(server.raw().keys("*").await.is_empty(), "no lock was taken");
}

#[tokio::test]
async fn a_silent_server_costs_no_more_than_the_reply_timeout() {
    let server = Server::start().await;
    let builder = Redlock::builder().url(server.url()).reply_timeout(ms(300));
    let redlock = builder.lazy().build().await.unwrap();
    until(&redlock, &[true]).await;
    server.freeze();
    let begun = Instant::now();
    let health = redlock.health().await;
    let took = begun.elapsed();
    server.thaw();
    assert_eq!(error_of(&health), NodeErrorKind::NoReply, "{health}");
    assert!((ms(300)..secs(8)).contains(&took), "{took:?}");
    until(&redlock, &[true]).await;
}

/// It answers every question, and refuses every lock.
#[tokio::test]
async fn a_replica_is_reachable_and_not_usable() {
    let servers = Replicated::start(1).await;
    let replica = servers.server(1);
    let redlock = Redlock::builder().url(replica.url()).lazy().build().await.unwrap();
    let health = redlock.health().await;
    assert_eq!(error_of(&health), NodeErrorKind::ReadOnly, "{health}");
    assert!(health.nodes()[0].is_reachable() && !health.is_available());
}

#[tokio::test]
async fn a_password_is_wrong_and_is_not_shown() {
    let (captured, server) = (capture(), Server::builder().requirepass("right").start().await);
    let url = format!("redis://:hunter2-Zq9@{}", server.addr());
    let redlock = Redlock::builder().url(url).lazy().build().await.unwrap();
    let health = redlock.health().await;
    assert_eq!(error_of(&health), NodeErrorKind::Authentication, "{health}");
    let shown = format!("{health} {health:?}");
    assert!(!shown.contains("hunter2") && shown.contains(&server.addr().to_string()), "{shown}");
    assert!(captured.about("hunter2").is_empty());
}

#[tokio::test]
async fn of_three_masters_one_may_be_down() {
    let masters = Masters::start(3).await;
    let redlock = Redlock::builder().urls(masters.urls()).build().await.unwrap();
    assert!(until(&redlock, &[true, true, true]).await.is_available());
    masters[1].kill9();
    let health = until(&redlock, &[true, false, true]).await;
    assert!(health.is_available(), "{health}");
    assert_eq!(health.nodes()[1].node(), masters[1].url());
    masters[0].kill9();
    assert!(!until(&redlock, &[false, false, true]).await.is_available());
}

#[tokio::test]
async fn a_pool_and_memory_have_one_node() {
    let server = Server::start().await;
    let pool = Config::from_url(server.url()).create_pool(Some(Runtime::Tokio1)).unwrap();
    let pooled = Redlock::builder().pool(pool).build().await.unwrap();
    assert_eq!(pooled.health().await.nodes()[0].node(), "redis pool 0");
    assert!(pooled.health().await.is_available());
    server.kill9();
    assert!(!until(&pooled, &[false]).await.is_available());
    let memory = Redlock::builder().memory().build().await.unwrap();
    assert!(memory.health().await.is_available());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_that_sentinels_watch_is_one_node() {
    let set = Sentinels::start().await;
    let builder = Redlock::builder().sentinel(set.urls(), Sentinels::MASTER);
    let redlock = builder.build().await.unwrap();
    let health = redlock.health().await;
    assert!(health.is_available(), "{health}");
    assert_eq!(health.nodes()[0].node(), format!("sentinel {}", Sentinels::MASTER));
    let old = set.master().await;
    old.kill9();
    assert!(!until(&redlock, &[false]).await.is_available());
    set.successor_of(old).await;
    until(&redlock, &[true]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_master_of_a_cluster_is_a_node() {
    let cluster = Cluster::start_with(secs(60), &["cluster-require-full-coverage no"]).await;
    let redlock = Redlock::builder().cluster(cluster.urls()).build().await.unwrap();
    let health = until(&redlock, &[true, true, true]).await;
    assert!(health.is_available(), "{health}");
    let masters = cluster.masters().await;
    let shown = |master: &Server| format!("({})", master.addr());
    for master in &masters {
        let is_it = |node: &NodeHealth| node.node().ends_with(&shown(master));
        assert!(health.nodes().iter().any(is_it), "{health}");
    }
    // From redis 7 on, servers may leave out the host, which is the one that was asked.
    for node in cluster.nodes() {
        let setting = ["CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint"];
        let _ = node.raw().try_cmd(&setting).await;
    }
    let health = redlock.health().await;
    assert!(health.is_available() && health.nodes().len() == 3, "{health}");
    // One that is silent does not keep the others from answering, however often it is asked.
    masters[2].freeze();
    for _ in 0..4 {
        is_down(&redlock.health().await, &shown(masters[2])).unwrap();
    }
    masters[2].thaw();
    until(&redlock, &[true, true, true]).await;
    masters[1].kill9();
    eventually(secs(30), || async { is_down(&redlock.health().await, &shown(masters[1])) }).await;
}

/// Is this master of three down, and no other one?
fn is_down(health: &Health, master: &str) -> Result<(), String> {
    let down: Vec<_> = health.nodes().iter().filter(|node| !node.is_usable()).collect();
    let is_it = down.len() == 1 && down[0].node().ends_with(master) && health.nodes().len() == 3;
    if is_it && !health.is_available() { Ok(()) } else { Err(health.to_string()) }
}

/// Its masters serve their slots all the same, if they are told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_a_master_for_some_slots_is_not_available() {
    for (config, serve) in [(&["cluster-require-full-coverage no"][..], true), (&[], false)] {
        let cluster = Cluster::start_with(secs(60), config).await;
        let redlock = Redlock::builder().cluster(cluster.urls()).build().await.unwrap();
        until(&redlock, &[true, true, true]).await;
        for node in cluster.nodes() {
            node.raw().cmd(&["CLUSTER", "DELSLOTS", "16380", "16381"]).await;
        }
        let health = until(&redlock, &[serve, serve, serve, false]).await;
        assert!(!health.is_available(), "{health}");
        for error in health.nodes().iter().filter_map(NodeHealth::error) {
            assert_eq!(error.kind(), NodeErrorKind::Cluster);
        }
        let error = health.nodes()[3].error().unwrap();
        assert!(error.to_string().contains("no master has the slots 16380 to 16381"), "{error}");
    }
}

/// A client that named one server goes on without it, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_named_servers_have_left_is_available_while_it_grants_locks() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let seed = cluster.master_of("lock:k").await;
    let redlock = Redlock::builder().cluster([seed.url()]).build().await.unwrap();
    redlock.lock("k").run(async {}).await.unwrap();
    until(&redlock, &[true, true, true]).await;
    cluster.fail_over("lock:k").await;
    redlock.lock("k").wait(secs(60)).run(async {}).await.unwrap();
    seed.kill9();
    redlock.lock("k").wait(secs(60)).run(async {}).await.unwrap();
    let health = until(&redlock, &[true, true, true]).await;
    assert!(health.is_available(), "{health}");
}

/// A master that was just started answers PING, and refuses all keys for two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_a_cluster_that_refuses_its_keys_is_not_usable() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = Redlock::builder().cluster(cluster.urls()).build().await.unwrap();
    until(&redlock, &[true, true, true]).await;
    let master = cluster.master_of("k").await;
    let refuses = async || {
        let answer = master.raw().try_cmd(&["GET", "k"]).await;
        answer.is_err_and(|error| error.code() == Some("CLUSTERDOWN"))
    };
    // On a machine that stands still those two seconds may be over too soon.
    eventually(secs(60), || async {
        master.kill9();
        master.start_again().await;
        let (before, health, after) = (refuses().await, redlock.health().await, refuses().await);
        assert!(!(before && after && health.is_available()), "{health}");
        before && after
    })
    .await;
    until(&redlock, &[true, true, true]).await;
}

#[tokio::test]
async fn a_master_without_the_replicas_that_confirm_a_lock_is_not_available() {
    let servers = Replicated::start(1).await;
    let client = async |needed| {
        let builder = Redlock::builder().url(servers.server(0).url());
        builder.min_replicas(needed, ms(200)).lazy().build().await.unwrap()
    };
    until(&client(1).await, &[true]).await;
    let health = client(2).await.health().await;
    assert_eq!(error_of(&health), NodeErrorKind::NoReplicas, "{health}");
    assert!(health.nodes()[0].is_reachable() && !health.is_available());
}

/// Requests do not pile up while nobody can serve them.
#[tokio::test]
async fn calls_wait_for_a_dead_server_no_longer_than_they_are_told_to() {
    let server = Server::start().await;
    let builder = Redlock::builder().url(server.url()).prefix(unique_prefix());
    let redlock = builder.outage_wait(ms(500)).build().await.unwrap();
    drop(redlock.lock("k").acquire().await.unwrap());
    server.kill9();
    let begun = Instant::now();
    let error = redlock.lock("k").wait(Wait::Forever).acquire().await.unwrap_err();
    let took = begun.elapsed();
    assert!(error.is_unavailable() && (ms(500)..secs(8)).contains(&took), "{took:?}: {error}");
    server.start_again().await;
    let held = redlock.lock("k").wait(secs(20)).acquire().await;
    drop(held.expect("an outage that ends in time is waited for"));
}
