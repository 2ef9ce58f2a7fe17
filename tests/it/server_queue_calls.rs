//! What a hand-over costs the server, and who hears of it.

use crate::clients::{client, raw};
use crate::local_connections::MANY;
use crate::server_queue::{Lock, NOBODY, lock};
use crate::support::{Server, eventually, secs, unique_prefix};
use futures_core::Stream;

pub async fn calls(lock: &Lock, command: &str) -> u64 {
    let stats = lock.raw.cmd(&["INFO", "commandstats"]).await;
    let stats: String = deadpool_redis::redis::from_redis_value(stats).unwrap();
    let line = stats.lines().find_map(|line| {
        let rest = line.strip_prefix("cmdstat_")?.strip_prefix(command)?;
        rest.strip_prefix(":calls=")?.split(',').next()?.parse().ok()
    });
    line.unwrap_or(0)
}

/// One script and one message, however many wait; the one that claims it sends one more.
#[tokio::test]
async fn a_hand_over_costs_one_script_and_one_message() {
    let server = Server::start().await;
    let lock = Lock::new(server.raw());
    let client = deadpool_redis::redis::Client::open(server.url()).unwrap();
    let (mut sink, _stream) = client.get_async_pubsub().await.unwrap().split();
    sink.subscribe("redlock:one").await.unwrap();
    lock.join_on("0", "redlock:one").await.unwrap();
    for n in 1..=100 {
        lock.join_on(&n.to_string(), "redlock:one").await.unwrap();
    }
    lock.raw.cmd(&["CONFIG", "RESETSTAT"]).await;
    for n in 0..100 {
        assert_eq!(lock.release(&n.to_string()).await, "2");
    }
    assert_eq!(lock.holder().await.as_deref(), Some("100"));
    assert_eq!(calls(&lock, "eval").await, 100);
    assert_eq!(calls(&lock, "publish").await, 100);
    assert_eq!(calls(&lock, "lrange").await, 0, "nobody reads the whole queue");
}

#[tokio::test]
async fn the_message_says_what_was_handed_over_to_whom() {
    let server = Server::shared().await;
    let lock = lock().await;
    let channel = format!("redlock:{}", unique_prefix());
    let client = deadpool_redis::redis::Client::open(server.url()).unwrap();
    let mut pubsub = client.get_async_pubsub().await.unwrap();
    pubsub.subscribe(&channel).await.unwrap();
    lock.join_on("holder", &channel).await.unwrap();
    lock.join_on("a 1 b", &channel).await.unwrap();
    assert_eq!(lock.release("holder").await, "2");
    let last: u64 = lock.raw.get(&lock.fence).await.unwrap().parse().unwrap();
    let heard = async {
        let mut messages = std::pin::pin!(pubsub.on_message());
        let next = std::future::poll_fn(|context| messages.as_mut().poll_next(context));
        next.await.unwrap().get_payload::<String>().unwrap()
    };
    let message = tokio::time::timeout(secs(15), heard).await.unwrap();
    assert_eq!(message, format!("{} {last} 1000 5 a 1 b{}", last - 7, lock.key));
}

/// Several keys are released with one command: the key that was handed over is looked after.
#[tokio::test]
async fn of_several_keys_the_one_that_was_handed_over_is_looked_after() {
    let redlock = client().await;
    // Until this runtime has a connection of its own, each key is released by itself.
    for _ in 0..MANY {
        redlock.lock("c").run(async {}).await.unwrap();
    }
    for handed_over in ["a", "b"] {
        let guard = redlock.lock_all(["a", "b"]).acquire().await.unwrap();
        let first = guard.lease().redis_key().to_owned();
        let key = first.strip_suffix('a').unwrap().to_owned() + handed_over;
        let lock = Lock::called(&key, raw().await);
        for owner in ["dead", "next"] {
            lock.join_on(owner, NOBODY).await.unwrap();
        }
        guard.release().await.unwrap();
        assert_eq!(lock.holder().await.as_deref(), Some("dead"), "{handed_over}");
        eventually(secs(20), || async { lock.holder().await.as_deref() == Some("next") }).await;
        lock.release("next").await;
    }
}

/// It is not told either, and nobody who waits would look: the one who let go hands it on.
#[tokio::test]
async fn what_was_handed_to_the_dead_goes_to_the_next_when_the_claim_window_is_over() {
    let redlock = client().await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    let lock = Lock::called(guard.lease().redis_key(), raw().await);
    for owner in ["dead", "dead, too", "next"] {
        lock.join_on(owner, NOBODY).await.unwrap();
    }
    guard.release().await.unwrap();
    assert_eq!(lock.holder().await.as_deref(), Some("dead"));
    for owner in ["dead, too", "next"] {
        eventually(secs(20), || async { lock.holder().await.as_deref() == Some(owner) }).await;
    }
    assert_eq!(lock.waiting().await, 0);
}
