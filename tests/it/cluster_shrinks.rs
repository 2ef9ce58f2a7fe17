//! Servers that are taken out of a cluster, and live on.

use redlock::{LockGuard, Redlock, Released};

use crate::support::{Cluster, eventually, lines_of, secs};

/// Gives the slots of the first master to the second, and takes it out of the cluster. As
/// `redis-cli --cluster del-node` does it, the server lives on, alone.
async fn take_out_the_first_master(cluster: &Cluster) {
    let [leaver, heir] = [&cluster.nodes()[0], &cluster.nodes()[1]];
    let (leaver_id, heir_id) = (cluster.id_of(leaver).await, cluster.id_of(heir).await);
    let replica = cluster.nodes()[3].raw();
    replica.cmd(&["CLUSTER", "REPLICATE", &heir_id]).await;
    for node in &cluster.nodes()[1..] {
        node.raw().cmd(&["CLUSTER", "FORGET", &leaver_id]).await;
    }
    leaver.raw().cmd(&["FLUSHALL"]).await;
    leaver.raw().cmd(&["CLUSTER", "RESET", "SOFT"]).await;
    heir.raw().add_slots(0, 5460).await;
    for node in &cluster.nodes()[1..] {
        let raw = node.raw();
        eventually(secs(60), || async {
            let info = lines_of(raw.cmd(&["CLUSTER", "INFO"]).await);
            let is_whole = info.iter().any(|line| line == "cluster_state:ok");
            if is_whole { Ok(()) } else { Err(info) }
        })
        .await;
    }
}

async fn until_renewed(guard: &LockGuard) {
    let enough = guard.renewals() + 2;
    let renewed = || async { guard.renewals() >= enough || guard.check().is_err() };
    eventually(secs(60), renewed).await;
    guard.check().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_a_server_that_was_taken_out_and_lives_on() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = Redlock::builder().cluster(cluster.urls()).build().await.unwrap();
    let lock = |n: usize| redlock.lock(format!("k-{n}")).expire(secs(6)).wait(secs(60));
    let first = cluster.nodes()[0].port();
    let mut hit = None;
    for n in 0..50 {
        if cluster.master_of(&format!("lock:k-{n}")).await.port() == first {
            hit = Some(n);
            break;
        }
    }
    let hit = hit.expect("a third of the keys is there");
    let guard = lock(hit).acquire().await.unwrap();
    until_renewed(&guard).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    take_out_the_first_master(&cluster).await;

    // By the connection of the calls, then by that of the renewals, which has not heard of it.
    let guard = lock(hit).acquire().await.unwrap();
    until_renewed(&guard).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(cluster.nodes()[0].is_running());
}
