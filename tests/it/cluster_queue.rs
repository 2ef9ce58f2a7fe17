//! The queue of a lock in a cluster: each process listens at every master.

use redlock::{LockGuard, Redlock};

use crate::server_queue::Lock;
use crate::support::process::{Args, block_on, emit};
use crate::support::{Cluster, Process, Server, eventually, lines_of, ms, secs, unique_prefix};

/// Waits for a lock until it is killed: prefix, the servers.
pub fn wait(args: &Args) {
    let urls: Vec<&str> = args.get(1).split(' ').collect();
    block_on(async {
        let builder = Redlock::builder().cluster(urls).prefix(args.get(0));
        let redlock = builder.build().await.expect("the cluster is up");
        let held = redlock.lock("k").wait(secs(600)).acquire().await;
        emit(&format!("held {}", held.is_ok()));
    });
}

async fn build(cluster: &Cluster, prefix: &str) -> Redlock {
    Redlock::builder().cluster(cluster.urls()).prefix(prefix).build().await.unwrap()
}

/// The channel and the owner of each in the queue.
async fn entries(lock: &Lock) -> Vec<(String, String)> {
    let entries = lines_of(lock.raw.cmd(&["LRANGE", &lock.queue, "0", "-1"]).await);
    let words = entries.iter().map(|entry| entry.splitn(5, ' ').skip(3));
    let pair = |mut words: std::iter::Skip<std::str::SplitN<'_, char>>| {
        (words.next().unwrap().to_owned(), words.next().unwrap().to_owned())
    };
    words.map(pair).collect()
}

/// Once so many are in the queue.
async fn in_the_queue<const N: usize>(lock: &Lock) -> [(String, String); N] {
    eventually(secs(30), || async { <[_; N]>::try_from(entries(lock).await) }).await
}

async fn listeners(server: &Server, channel: &str) -> String {
    lines_of(server.raw().cmd(&["PUBSUB", "NUMSUB", channel]).await).remove(1)
}

async fn assert_heard_everywhere(cluster: &Cluster, channel: &str) {
    for master in cluster.masters().await {
        assert_eq!(listeners(master, channel).await, "1", "{}", master.addr());
    }
}

/// A lock that is held, and another client that may wait for it.
async fn held(cluster: &Cluster, prefix: &str) -> (LockGuard, Redlock) {
    let (holder, waiter) = (build(cluster, prefix).await, build(cluster, prefix).await);
    (holder.lock("k").expire(secs(60)).acquire().await.unwrap(), waiter)
}

async fn until_heard_at(server: &Server, channel: &str) {
    eventually(secs(60), || async {
        let count = listeners(server, channel).await;
        if count == "1" { Ok(()) } else { Err(count) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_died_is_passed_over_at_once() {
    let (cluster, prefix) = (Cluster::start_with(secs(60), &[]).await, unique_prefix());
    let (guard, waiter) = held(&cluster, &prefix).await;
    let key = format!("{prefix}k");
    let master = cluster.master_of(&key).await;
    let lock = Lock::called(&key, master.raw());
    let mut child = Process::spawn("wait-in-a-cluster", &[&prefix, &cluster.urls().join(" ")]);
    let [(channel, _)] = in_the_queue::<1>(&lock).await;
    let waiting = tokio::spawn(waiter.lock("k").wait(secs(50)).acquire());
    let [_, (_, next)] = in_the_queue::<2>(&lock).await;
    assert_heard_everywhere(&cluster, &channel).await;
    child.sigkill();
    eventually(secs(20), || async { listeners(master, &channel).await == "0" }).await;
    guard.release().await.unwrap();
    assert_eq!(lock.holder().await, Some(next), "who lives has it at once");
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A connection that breaks is made anew, and those in the queue look meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_is_made_anew() {
    let (cluster, prefix) = (Cluster::start_with(secs(60), &[]).await, unique_prefix());
    let (guard, waiter) = held(&cluster, &prefix).await;
    let key = format!("{prefix}k");
    let master = cluster.master_of(&key).await;
    let lock = Lock::called(&key, master.raw());
    let waiting = tokio::spawn(waiter.lock("k").wait(secs(50)).acquire());
    let [(channel, _)] = in_the_queue::<1>(&lock).await;
    assert_heard_everywhere(&cluster, &channel).await;
    master.raw().cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    until_heard_at(master, &channel).await;
    for master in cluster.masters().await {
        assert_eq!(listeners(master, &channel).await, "1", "the others were kept");
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_is_listened_to() {
    let cluster = Cluster::start_with(ms(1500), &["cluster-require-full-coverage no"]).await;
    let prefix = unique_prefix();
    let (holder, waiter) = (build(&cluster, &prefix).await, build(&cluster, &prefix).await);
    let _guard = holder.lock("k").expire(secs(600)).acquire().await.unwrap();
    let key = format!("{prefix}k");
    let home = cluster.master_of(&key).await;
    let lock = Lock::called(&key, home.raw());
    let waiting = tokio::spawn(waiter.lock("k").wait(secs(600)).acquire());
    let [(channel, _)] = in_the_queue::<1>(&lock).await;
    let masters = cluster.masters().await;
    let old = masters.into_iter().find(|master| master.port() != home.port()).unwrap();
    let other = eventually(secs(20), || async {
        for n in 0..100 {
            let key = format!("other-{n}");
            if cluster.master_of(&key).await.port() == old.port() {
                return Some(key);
            }
        }
        None
    })
    .await;
    old.kill9();
    let new = cluster.successor_of(old, &other).await;
    until_heard_at(new, &channel).await;
    waiting.abort();
}
