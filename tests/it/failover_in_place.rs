//! A planned failover behind one address: another server is the master from one moment to the next,
//! and no connection breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redlock::{LeaseState, LostReason, Redlock};

use crate::support::proxy::{Then, command, contains};
use crate::support::{
    Masters, Proxy, Replicated, Server, capture, eventually, lines_of, ms, secs, time_passes,
    unique_prefix,
};

/// The connection for renewals leads to the old server, where the lock never was. Neither server
/// tells which process it is, which would end that connection.
#[tokio::test]
async fn a_lock_is_not_lost_by_what_an_older_connection_says() {
    let masters = Masters::start(2).await;
    let proxy = Proxy::start(&masters[0]);
    proxy.always(command(&["INFO"]), Then::Answer(b"-NOPERM no info\r\n".to_vec()));
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).expire(secs(3));
    let redlock = builder.build().await.unwrap();
    drop(redlock.lock("warm").acquire().await.unwrap().release().await);
    proxy.lead_to(&masters[1]);
    let hits = proxy.when(command(&["EVALSHA"]), Then::CutRequest);
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(hits.count(), 1);
    assert!(masters[1].raw().get(guard.redis_key()).await.is_some(), "acquired at the new master");
    let is_renewed = || async { if guard.renewals() > 0 { Ok(()) } else { Err(guard.state()) } };
    eventually(secs(20), is_renewed).await;
    assert_eq!(guard.state(), LeaseState::Held);
    assert!(masters[1].raw().get(guard.redis_key()).await.is_some());
}

/// Only the connection for renewals breaks, and leads to the new server from then on. The others
/// lead to the old one, which lives, and would grant locks there for ever.
#[tokio::test]
async fn the_connection_of_calls_follows_the_one_for_renewals() {
    let masters = Masters::start(2).await;
    let proxy = Proxy::start(&masters[0]);
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).expire(secs(3));
    let redlock = builder.build().await.unwrap();
    let first = redlock.lock("first").acquire().await.unwrap();
    proxy.lead_to(&masters[1]);
    let hits = proxy.when(command(&["EVALSHA"]), Then::CutRequest);
    assert_eq!(first.lost().await, LostReason::Expired);
    assert_eq!(hits.count(), 1, "the connection for renewals broke");
    // One try: after many, this runtime would have a connection of its own, which leads there.
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(masters[1].raw().get(guard.redis_key()).await.is_some(), "acquired at the new master");
    let is_renewed = || async { if guard.renewals() > 0 { Ok(()) } else { Err(guard.state()) } };
    eventually(secs(20), is_renewed).await;
    assert_eq!(guard.state(), LeaseState::Held);
}

/// The old server refuses what is written, which breaks no connection and is no outage.
#[tokio::test]
async fn a_switch_to_another_server_is_told_though_nothing_broke() {
    let (captured, masters) = (capture(), Masters::start(2).await);
    let proxy = Proxy::start(&masters[0]);
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix());
    let redlock = builder.build().await.unwrap();
    drop(redlock.lock("before").acquire().await.unwrap().release().await);
    proxy.lead_to(&masters[1]);
    let port = masters[1].addr().port().to_string();
    masters[0].raw().cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    drop(redlock.lock("after").wait(secs(20)).acquire().await.unwrap());
    captured.wait_for(secs(20), &proxy.addr().to_string(), "or replaced").await;
}

/// A lock that is gone costs the others nothing, though no new connection can be made to ask again.
#[tokio::test]
async fn the_leases_beside_a_lost_one_are_renewed_although_nobody_can_connect() {
    let proxy = Proxy::start(Server::shared().await);
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).expire(secs(3));
    let redlock = builder.build().await.unwrap();
    drop(redlock.lock("warm").acquire().await.unwrap().release().await);
    // From here on the connection for renewals is not the latest.
    let hits = proxy.when(command(&["EVALSHA"]), Then::CutRequest);
    let (kept, gone) = tokio::join!(redlock.lock("a").acquire(), redlock.lock("b").acquire());
    let (kept, gone) = (kept.unwrap(), gone.unwrap());
    assert_eq!(hits.count(), 1);
    proxy.refuse();
    Server::shared().await.raw().del(gone.redis_key()).await;
    let is_renewed = || async { if kept.renewals() > 1 { Ok(()) } else { Err(kept.state()) } };
    eventually(secs(20), is_renewed).await;
    assert_eq!(kept.state(), LeaseState::Held);
    gone.lost().await;
}

/// To connect takes longer than a renewal may. The connection is made all the same, and the next
/// renewal is sent over it.
#[tokio::test]
async fn a_lost_lock_is_told_though_it_takes_long_to_connect_and_ask_again() {
    let proxy = Proxy::start(Server::shared().await);
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).expire(secs(6));
    let redlock = builder.build().await.unwrap();
    drop(redlock.lock("warm").acquire().await.unwrap().release().await);
    // From here on the connection for renewals is not the latest.
    let hits = proxy.when(command(&["EVALSHA"]), Then::CutRequest);
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(hits.count(), 1);
    proxy.always(contains("SETINFO"), Then::DelayReply(ms(800)));
    Server::shared().await.raw().del(guard.redis_key()).await;
    assert_eq!(guard.lost().await, LostReason::Expired);
}

/// A subscription stays where it is, with a server that is a replica now: what is published at the
/// new master is heard there, too, but not counted. Whoever is not counted must not take the lock
/// for its own, as the next one has it.
#[tokio::test]
async fn who_listens_at_the_master_of_before_does_not_believe_that_it_was_handed_the_lock() {
    let servers = Replicated::start(1).await;
    let proxy = Proxy::start(servers.server(0));
    let prefix = unique_prefix();
    let client = async |url: String| {
        Redlock::builder().url(url).prefix(prefix.clone()).build().await.unwrap()
    };
    let moved = client(proxy.url()).await;
    // It listens from its first wait on.
    let first = moved.lock("k").acquire().await.unwrap();
    let second = tokio::spawn(moved.lock("k").acquire());
    time_passes(ms(50)).await;
    first.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();

    servers.promote(1).await;
    servers.linked().await;
    proxy.lead_to(servers.server(1));
    let others = [client(servers.server(1).url()).await, client(servers.server(1).url()).await];
    let inside = Arc::new(AtomicUsize::new(0));
    let body = |inside: Arc<AtomicUsize>| async move {
        let others = inside.fetch_add(1, Ordering::SeqCst);
        time_passes(ms(20)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        others
    };
    for _ in 0..10 {
        let holder = others[0].lock("k").acquire().await.unwrap();
        let entries = || async { servers.server(1).raw().int(&["LLEN", &queue(&prefix)]).await };
        let before = moved.lock("k").wait(secs(20)).run(body(Arc::clone(&inside)));
        let before = tokio::spawn(before);
        eventually(secs(10), || async { entries().await == 1 }).await;
        let behind = others[1].lock("k").wait(secs(20)).run(body(Arc::clone(&inside)));
        let behind = tokio::spawn(behind);
        eventually(secs(10), || async { entries().await == 2 }).await;
        holder.release().await.unwrap();
        let met = [before.await.unwrap().unwrap(), behind.await.unwrap().unwrap()];
        assert_eq!(met, [0, 0], "two holders at once");
    }
}

/// Nobody waits, whose look would show that the subscription is not counted.
#[tokio::test]
async fn a_subscription_leaves_a_server_that_became_a_replica() {
    let servers = Replicated::start(1).await;
    let proxy = Proxy::start(servers.server(0));
    let prefix = unique_prefix();
    let client = async |url: String| {
        Redlock::builder().url(url).prefix(prefix.clone()).build().await.unwrap()
    };
    let (moved, other) = (client(proxy.url()).await, client(servers.server(0).url()).await);
    let listens = async |n: usize| {
        let channels = servers.server(n).raw().cmd(&["PUBSUB", "CHANNELS", "redlock:*"]).await;
        !lines_of(channels).is_empty()
    };
    let holder = other.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(moved.lock("k").wait(secs(60)).acquire());
    eventually(secs(20), || listens(0)).await;
    holder.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();

    servers.promote(1).await;
    proxy.lead_to(servers.server(1));
    moved.lock("after").wait(secs(20)).run(async {}).await.unwrap();
    eventually(secs(20), || listens(1)).await;
}

fn queue(prefix: &str) -> String {
    format!("{{{prefix}k}}:queue")
}
