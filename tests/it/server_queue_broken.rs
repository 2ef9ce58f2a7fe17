//! A client whose subscriptions break again and again waits, and passes its lock on, without them.

use std::time::Instant;

use redlock::{LockRequest, Redlock};

use crate::support::{Raw, Server, eventually, ms, secs, unique_prefix};

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
