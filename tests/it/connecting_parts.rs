//! A server is silent while a connection is made: a sentinel, a master of a cluster, the only one.

use redlock::Redlock;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::support::{Cluster, Raw, Sentinels, Server, eventually, secs, within};

/// Every client of this server has to connect anew.
async fn cut(server: &Server) {
    server.raw().cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await;
}

/// The first ones of the list, so many that `build` has no time to ask one after another.
#[tokio::test]
async fn a_frozen_sentinel_takes_nobody_down() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let address = |listener: &TcpListener| listener.local_addr().unwrap();
    let mut urls: Vec<_> = silent.iter().map(|one| format!("redis://{}", address(one))).collect();
    urls.extend(set.urls());
    let builder = || Redlock::builder().sentinel(urls.clone(), Sentinels::MASTER);
    let before = builder().build().await.unwrap();
    set.sentinels()[0].freeze();
    cut(&set.servers()[0]).await;
    let after = builder().build().await.expect("two sentinels know the master");
    for redlock in [before, after] {
        redlock.lock("k").wait(secs(20)).run(async {}).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_of_a_cluster_keeps_nobody_from_the_others() {
    let config = ["cluster-require-full-coverage no", "cluster-replica-no-failover yes"];
    let cluster = Cluster::start_with(secs(60), &config).await;
    let builder = || Redlock::builder().cluster(cluster.urls());
    let before = builder().build().await.unwrap();
    let masters = cluster.masters().await;
    let (frozen, others) = masters.split_first().unwrap();
    let mut keys = Vec::new();
    for n in 0..60 {
        let key = format!("k-{n}");
        if cluster.master_of(&format!("lock:{key}")).await.port() != frozen.port() {
            keys.push(key);
        }
    }
    frozen.freeze();
    for master in others {
        cut(master).await;
    }
    let after = builder().build().await.expect("most of the masters answer");
    for redlock in [before, after] {
        for key in &keys[..4] {
            eventually(secs(60), || async { redlock.lock(key).run(async {}).await }).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_is_given_up_while_it_is_built_closes_its_connection() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let building = tokio::spawn(Redlock::builder().url(url).reply_timeout(secs(3600)).build());
    let (mut socket, _) = silent.accept().await.unwrap();
    building.abort();
    // Sooner than a connection is given up that nobody has given up before.
    let _ = within(secs(8), socket.read_to_end(&mut Vec::new())).await;
}

/// Nothing was asked when the client was built, so that the first renewal needs a second one.
#[tokio::test]
async fn a_lease_outlives_a_server_that_takes_no_other_connection() {
    let full = async |raw: &Raw| {
        let clients = raw.info("connected_clients").await;
        raw.cmd(&["CONFIG", "SET", "maxclients", &clients]).await;
    };
    let other_password = async |raw: &Raw| {
        raw.cmd(&["CONFIG", "SET", "requirepass", "another"]).await;
    };
    for is_full in [true, false] {
        let server = Server::builder().requirepass("one").start().await;
        let (raw, builder) = (server.raw(), Redlock::builder().url(server.url_with_password()));
        let redlock = builder.lazy().build().await.unwrap();
        let guard = redlock.lock("k").expire(secs(4)).acquire().await.unwrap();
        if is_full {
            full(&raw).await;
        } else {
            other_password(&raw).await;
        }
        eventually(secs(20), || async { guard.renewals() >= 2 || guard.check().is_err() }).await;
        guard.check().expect("it is renewed over the connection that there is");
    }
}
