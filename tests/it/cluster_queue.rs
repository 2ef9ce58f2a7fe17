//! The queue of a lock in a cluster: each process listens at every master.

use redlock::{LockGuard, Redlock};

use crate::server_queue::Lock;
use crate::server_queue_told::wait_told;
use crate::support::process::{Args, block_on, emit};
use crate::support::{Cluster, Process, Raw, Server, eventually, lines_of, secs, unique_prefix};

/// Waits for a lock until it is killed, and says its channel: prefix, the servers.
pub fn wait(args: &Args) {
    let urls: Vec<String> = args.get(1).split(' ').map(str::to_owned).collect();
    block_on(async {
        let redlock = build(&urls, args.get(0)).await;
        let lock = Lock::called(&format!("{}k", args.get(0)), Raw::cluster(&urls));
        let (waiting, entry) = wait_told(&redlock, &lock).await;
        emit(&format!("waits {}", entry.channel));
        let held = waiting.await.expect("it does not panic");
        emit(&format!("held {}", held.is_ok()));
    });
}

async fn build(urls: &[String], prefix: &str) -> Redlock {
    let builder = Redlock::builder().cluster(urls).prefix(prefix);
    builder.build().await.expect("the cluster is up")
}

async fn listeners(server: &Server, channel: &str) -> String {
    lines_of(server.raw().cmd(&["PUBSUB", "NUMSUB", channel]).await).remove(1)
}

async fn assert_heard_everywhere(cluster: &Cluster, channel: &str) {
    for master in cluster.masters().await {
        assert_eq!(listeners(master, channel).await, "1", "{}", master.addr());
    }
}

/// A cluster in which nobody is replaced by itself, a lock that is held there, and another client
/// that may wait for it.
async fn held() -> (Cluster, Lock, LockGuard, Redlock) {
    let (cluster, prefix) = (Cluster::start_with(secs(60), &[]).await, unique_prefix());
    let holder = build(&cluster.urls(), &prefix).await;
    let waiter = build(&cluster.urls(), &prefix).await;
    let guard = holder.lock("k").expire(secs(600)).acquire().await.unwrap();
    let lock = Lock::called(guard.lease().redis_key(), cluster.raw());
    (cluster, lock, guard, waiter)
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
    let (cluster, lock, guard, waiter) = held().await;
    let master = cluster.master_of(&lock.key).await;
    let prefix = lock.key.strip_suffix('k').unwrap();
    let mut child = Process::spawn("wait-in-a-cluster", &[prefix, &cluster.urls().join(" ")]);
    let channel = child.event("waits").await;
    let (waiting, next) = wait_told(&waiter, &lock).await;
    assert_heard_everywhere(&cluster, &channel).await;
    child.sigkill();
    eventually(secs(20), || async { listeners(master, &channel).await == "0" }).await;
    guard.release().await.unwrap();
    assert_eq!(lock.holder().await, Some(next.owner), "who lives has it at once");
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A connection that breaks is made anew, and those in the queue look meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_is_made_anew() {
    let (cluster, lock, guard, waiter) = held().await;
    let master = cluster.master_of(&lock.key).await;
    let (waiting, entry) = wait_told(&waiter, &lock).await;
    assert_heard_everywhere(&cluster, &entry.channel).await;
    master.raw().cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    until_heard_at(master, &entry.channel).await;
    for master in cluster.masters().await {
        assert_eq!(listeners(master, &entry.channel).await, "1", "the others were kept");
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// No waiter of its keys looks, so that only the connection that breaks tells of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_is_listened_to() {
    let (cluster, lock, _guard, waiter) = held().await;
    let home = cluster.master_of(&lock.key).await;
    let (waiting, entry) = wait_told(&waiter, &lock).await;
    assert_heard_everywhere(&cluster, &entry.channel).await;
    let masters = cluster.masters().await;
    let old = masters.into_iter().find(|master| master.port() != home.port()).unwrap();
    old.kill9();
    let new = cluster.take_over(old).await;
    until_heard_at(new, &entry.channel).await;
    waiting.abort();
}
