//! One of several servers is silent while a connection is made: a sentinel, a master of a cluster.

use redlock::Redlock;

use crate::support::{Cluster, Sentinels, Server, eventually, secs};

/// Every client of this server has to connect anew.
async fn cut(server: &Server) {
    server.raw().cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await;
}

/// The first one of the list, and so often that `build` has no time to ask it each time: the others
/// do not stand behind it.
#[tokio::test]
async fn a_frozen_sentinel_takes_nobody_down() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let mut urls: Vec<String> = set.urls().into_iter().collect();
    let frozen = vec![urls[0].clone(); 40];
    urls.splice(..1, frozen);
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
