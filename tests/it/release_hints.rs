//! Release hints, where there is no queue: N masters, and `min_replicas`.

use futures_core::Stream;
use redlock::{Redlock, RedlockBuilder};

use crate::server_queue::{HEAD, Lock, QUICK_RELEASE, RELEASE};
use crate::support::{Server, eventually, lines_of, ms, secs, unique_prefix};

const HINT: &str = script!("release_hint.lua");

/// Hears what a server publishes to waiters.
struct Listener(deadpool_redis::redis::aio::PubSub);

impl Listener {
    async fn at(server: &Server) -> Self {
        let client = deadpool_redis::redis::Client::open(server.url()).unwrap();
        let mut pubsub = client.get_async_pubsub().await.unwrap();
        pubsub.psubscribe("redlock:*").await.unwrap();
        Self(pubsub)
    }

    /// The next message that is more than a sign of life.
    async fn next(&mut self) -> String {
        let heard = async {
            let mut messages = std::pin::pin!(self.0.on_message());
            loop {
                let next = std::future::poll_fn(|context| messages.as_mut().poll_next(context));
                let message: String = next.await.unwrap().get_payload().unwrap();
                if !message.is_empty() {
                    return message;
                }
            }
        };
        tokio::time::timeout(secs(15), heard).await.expect("something is published")
    }
}

/// A waiter asks each server for a notice; a release makes each of them give it, once.
async fn a_release_is_told_of(servers: &[Server], client: impl Fn() -> RedlockBuilder) {
    let prefix = unique_prefix();
    let connect = async || client().prefix(prefix.as_str()).build().await.unwrap();
    let (first, second) = (connect().await, connect().await);
    let guard = first.lock("k").expire(secs(60)).acquire().await.unwrap();
    let waiting = tokio::spawn(second.lock("k").wait(secs(50)).acquire());
    let queue = format!("{{{prefix}k}}:queue");
    let mut listeners = Vec::new();
    for server in servers {
        let raw = server.raw();
        eventually(secs(20), || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
        listeners.push(Listener::at(server).await);
    }
    guard.release().await.unwrap();
    for listener in &mut listeners {
        let message = listener.next().await;
        assert!(message.starts_with("free "), "{message}");
        assert!(message.ends_with(&format!("{prefix}k")), "{message}");
    }
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
    for server in servers {
        let raw = server.raw();
        eventually(secs(20), || async { raw.keys(&queue).await.is_empty() }).await;
    }
    for redlock in [first, second] {
        assert_eq!(redlock.shutdown(secs(15)).await, 0);
    }
}

#[tokio::test]
async fn masters_tell_a_waiter_of_a_release() {
    let masters = [Server::start().await, Server::start().await, Server::start().await];
    let urls = || Redlock::builder().urls(masters.iter().map(Server::url));
    a_release_is_told_of(&masters, urls).await;
}

#[tokio::test]
async fn a_master_with_replicas_tells_a_waiter_of_a_release() {
    let master = Server::start().await;
    let replica = Server::builder().replica_of(&master).start().await;
    eventually(secs(20), || async { replica.raw().info("master_link_status").await == "up" }).await;
    let servers = [master];
    let with_replica = || Redlock::builder().url(servers[0].url()).min_replicas(1, ms(900));
    a_release_is_told_of(&servers, with_replica).await;
}

/// Who gives up leaves nothing behind on any server.
#[tokio::test]
async fn whoever_gives_up_withdraws_its_hint_request() {
    let masters = [Server::start().await, Server::start().await, Server::start().await];
    let prefix = unique_prefix();
    let connect = async || {
        let urls = masters.iter().map(Server::url);
        Redlock::builder().urls(urls).prefix(prefix.as_str()).build().await.unwrap()
    };
    let (first, second) = (connect().await, connect().await);
    let guard = first.lock("k").expire(secs(60)).acquire().await.unwrap();
    let waiting = tokio::spawn(second.lock("k").wait(secs(50)).acquire());
    let queue = format!("{{{prefix}k}}:queue");
    let requests = async || {
        let mut requests = 0;
        for master in &masters {
            requests += master.raw().int(&["LLEN", &queue]).await;
        }
        requests
    };
    eventually(secs(20), || async { requests().await == 3 }).await;
    waiting.abort();
    eventually(secs(20), || async { requests().await == 0 }).await;
    guard.release().await.unwrap();
}

/// The script alone: the first who lives is told, and the lock is free for everybody.
#[tokio::test]
async fn a_release_tells_the_first_who_listens_and_hands_nothing_over() {
    let server = Server::start().await;
    let lock = Lock::new(server.raw());
    let request = async |owner: &str, channel: &str| {
        let keys = ["2", lock.key.as_str(), &lock.queue];
        let words = [&["EVAL", HINT][..], &keys, &[owner, channel, "0"]].concat();
        lines_of(lock.raw.cmd(&words).await).remove(0)
    };
    assert_eq!(request("early", "redlock:one").await, "0", "it is free");
    assert_eq!(lock.waiting().await, 0);
    lock.join_on("holder", "-").await.unwrap();
    let client = deadpool_redis::redis::Client::open(server.url()).unwrap();
    let mut pubsub = client.get_async_pubsub().await.unwrap();
    pubsub.subscribe("redlock:one").await.unwrap();
    let mut listener = Listener(pubsub);
    for (owner, channel) in
        [("gone", "redlock:gone"), ("a 1 b", "redlock:one"), ("c", "redlock:one")]
    {
        assert_eq!(request(owner, channel).await, "1");
    }
    assert!(lock.raw.pttl(&lock.queue).await.unwrap() > secs(50));
    assert_eq!(lock.release("holder").await, "1", "nobody is handed anything");
    assert_eq!(listener.next().await, format!("free 5 a 1 b{}", lock.key));
    assert_eq!((lock.holder().await, lock.waiting().await), (None, 1));
    let script = [QUICK_RELEASE, HEAD, RELEASE].concat();
    assert_eq!(lock.run(&script, &["c", "leave"]).await.unwrap(), ["0"]);
    assert_eq!(lock.waiting().await, 0, "it has withdrawn its request");
}
