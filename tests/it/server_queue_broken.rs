//! A client whose subscriptions break again and again waits, and passes its lock on, without them.

use std::time::Instant;

use redlock::{LockRequest, Redlock};

use crate::server_queue::{Lock, NOBODY};
use crate::server_queue_told::{entries, wait_told, wait_untold};
use crate::support::proxy::{Then, command};
use crate::support::{Proxy, Raw, Server, eventually, ms, secs, unique_prefix};

/// Its subscriptions end as soon as they are made: the next one is made after five seconds.
async fn break_subscriptions(raw: &Raw) {
    for _ in 0..10 {
        let kill = &["CLIENT", "KILL", "TYPE", "pubsub"];
        eventually(secs(60), || async { raw.int(kill).await > 0 }).await;
    }
}

#[tokio::test]
async fn who_cannot_listen_for_a_while_waits_in_the_queue_and_keeps_no_lock_from_others() {
    let server = Server::start().await;
    let (raw, prefix) = (server.raw(), unique_prefix());
    let builder = || Redlock::builder().url(server.url()).prefix(&*prefix).expire(secs(60));
    let other = builder().build().await.unwrap();
    let broken = builder().reply_timeout(secs(8)).build().await.unwrap();
    let queue = format!("{{{prefix}k}}:queue");
    let stand = async |count| {
        eventually(secs(20), || async { raw.int(&["LLEN", &queue]).await == count }).await;
    };
    let waits = |lock: LockRequest| tokio::spawn(lock.wait(secs(60)).acquire());

    let guard = other.lock("k").acquire().await.unwrap();
    let first = waits(broken.lock("k"));
    stand(1).await;
    break_subscriptions(&raw).await;
    first.abort();
    stand(0).await;
    let since = Instant::now();

    let refused = broken.lock("k").wait(ms(100)).acquire().await.unwrap_err();
    assert!(refused.is_busy(), "{refused}");

    let waiting = waits(broken.lock("k"));
    stand(1).await;
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();

    // The lock goes to the other client, then to a caller that has waited here.
    let next = waits(broken.lock("k"));
    let waiting = waits(other.lock("k"));
    stand(1).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    assert!(since.elapsed() < secs(4), "{:?}", since.elapsed());
}

#[tokio::test]
async fn who_joins_before_it_can_be_told_joins_again_when_it_can() {
    let server = Server::start().await;
    let (proxy, prefix) = (Proxy::start(&server), unique_prefix());
    let client = async |url| Redlock::builder().url(url).prefix(&*prefix).build().await.unwrap();
    let (holder, other) = (client(server.url()).await, client(server.url()).await);
    let waiter = client(proxy.url()).await;
    let lock = Lock::called(&format!("{prefix}k"), server.raw());

    let guard = holder.lock("k").acquire().await.unwrap();
    proxy.when_times(usize::MAX, command(&["SUBSCRIBE"]), Then::CutRequest);
    let (waiting, untold) = wait_untold(&waiter, &lock).await;
    assert_eq!(untold.channel, NOBODY);
    let (behind, _) = wait_told(&other, &lock).await;
    proxy.pass();
    let all_told = || async {
        let entries = entries(&lock).await;
        entries.len() == 2 && entries.iter().all(|entry| entry.channel != NOBODY)
    };
    eventually(secs(60), all_told).await;

    guard.release().await.unwrap();
    for waiting in [behind, waiting] {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}
