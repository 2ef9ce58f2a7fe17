//! Locks that count only once replicas have them.

use redlock::{LockError, LostReason, NodeErrorKind, Redlock, RedlockBuilder, Wait};

use crate::support::{Server, capture, eventually, ms, secs, unique_prefix};

/// A master and its replica, linked.
async fn pair() -> (Server, Server) {
    let master = Server::start().await;
    let replica = Server::builder().replica_of(&master).start().await;
    eventually(secs(20), || async { replica.raw().info("master_link_status").await == "up" }).await;
    eventually(secs(20), || async { master.raw().info("connected_slaves").await == "1" }).await;
    (master, replica)
}

fn on(master: &Server) -> RedlockBuilder {
    Redlock::builder().url(master.url()).prefix(unique_prefix())
}

#[tokio::test]
async fn a_lock_stands_on_the_replica_when_the_call_returns() {
    let (master, replica) = pair().await;
    let redlock = on(&master).min_replicas(1, ms(900)).build().await.unwrap();
    for round in 0..50 {
        let guard = redlock.lock(format!("k{round}")).wait(secs(30)).acquire().await.unwrap();
        let owner = replica.raw().get(guard.lease().redis_key()).await;
        assert_eq!(owner.as_deref(), Some(guard.owner()));
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn too_few_replicas_are_a_typed_error_and_leave_no_lock() {
    let (master, replica) = pair().await;
    let redlock = on(&master).min_replicas(1, ms(200)).build().await.unwrap();
    redlock.lock("warm").wait(secs(30)).run(async {}).await.unwrap();
    // All of it is acknowledged: only a WAIT that counts the next write itself will not be content.
    let is_acknowledged = || async {
        let offset = master.raw().info("master_repl_offset").await;
        master.raw().info("slave0").await.contains(&format!("offset={offset},"))
    };
    eventually(secs(20), is_acknowledged).await;
    replica.freeze();
    let error = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoReplicas);
    assert!(error.to_string().contains("0 of 1 replicas confirmed"), "{error}");
    assert!(error.to_string().contains("lower `min_replicas`"), "{error}");
    let is_free = || async {
        let keys = master.raw().keys("*").await;
        keys.iter().all(|key| key.ends_with(":fence"))
    };
    eventually(secs(20), is_free).await;

    // Once the replica is back, so are the locks: the wait outlasts the shortage.
    let waiting = tokio::spawn(async move { redlock.lock("k").wait(secs(60)).run(async {}).await });
    replica.thaw();
    waiting.await.unwrap().unwrap();
}

/// The server is up: it must not be taken for one that is silent.
#[tokio::test]
async fn missing_replicas_are_told_though_the_call_waits_less_than_they_may_take() {
    let master = Server::start().await;
    let redlock = on(&master).min_replicas(1, ms(400)).build().await.unwrap();
    let kind = || async {
        let error = redlock.lock("k").wait(ms(1)).acquire().await.unwrap_err();
        let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
        // The first connection may take as long as the call waits.
        if nodes[0].kind() == NodeErrorKind::NoReplicas { Ok(()) } else { Err(error.to_string()) }
    };
    eventually(secs(20), kind).await;
}

#[tokio::test]
async fn a_master_with_too_few_replicas_is_told_when_the_client_is_built() {
    let (captured, (master, replica)) = (capture(), pair().await);
    on(&master).min_replicas(1, ms(200)).build().await.unwrap();
    assert_eq!(captured.warnings_about(&master.url()).len(), 0);
    on(&master).min_replicas(2, ms(200)).build().await.unwrap();
    let event = captured.wait_for(secs(5), &master.url(), "fewer replicas are connected").await;
    assert_eq!((event.field("connected"), event.field("needed")), (Some("1"), Some("2")));
    drop(replica);
}

#[tokio::test]
async fn a_lease_whose_renewals_reach_no_replica_is_lost() {
    let (master, replica) = pair().await;
    let redlock = on(&master).min_replicas(1, ms(200)).build().await.unwrap();
    let guard = redlock.lock("k").expire(secs(6)).wait(secs(30)).acquire().await.unwrap();
    eventually(secs(30), || async { guard.renewals() >= 1 }).await;
    replica.freeze();
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    replica.thaw();
}

#[tokio::test]
async fn callers_do_not_wait_for_each_others_replicas() {
    let (master, replica) = pair().await;
    let redlock = on(&master).min_replicas(1, ms(900)).build().await.unwrap();
    let guard = redlock.lock("held").wait(secs(30)).acquire().await.unwrap();
    replica.freeze();
    let waiting = redlock.clone();
    let waiting = tokio::spawn(async move { waiting.lock("k").wait(Wait::Never).acquire().await });
    // A release needs no replica, and no turn behind those who wait for one.
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().is_err());
    replica.thaw();
}

#[tokio::test]
async fn options_that_cannot_work_are_refused() {
    let build = |replicas, within| {
        Redlock::builder().url("redis://127.0.0.1:1").lazy().min_replicas(replicas, within).build()
    };
    for (replicas, within, word) in
        [(0, ms(100), "asks for nothing"), (1, ms(0), "zero"), (1, secs(1), "reply_timeout")]
    {
        let error = build(replicas, within).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(build(1, ms(100)).await.is_ok());
    let memory = Redlock::builder().memory().min_replicas(1, ms(100)).build().await.unwrap_err();
    assert!(memory.to_string().contains("no replicas"), "{memory}");
}
