//! The masters of a cluster die, freeze, hand their slots on and are replaced.

use std::time::Instant;

use redlock::{
    LeaseState, LockError, LostReason, NodeErrorKind, Redlock, RedlockBuilder, Released,
};

use crate::load::{Load, work_until_lost};
use crate::support::{Cluster, Server, capture, eventually, ms, secs, unique_prefix, within};

fn builder(cluster: &Cluster) -> RedlockBuilder {
    Redlock::builder().cluster(cluster.urls())
}

/// Otherwise all masters refuse everything from the moment in which one of them is given up until
/// its replica has taken over.
const PARTLY: &[&str] = &["cluster-require-full-coverage no"];

fn keys(name: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{name}-{i}")).collect()
}

/// Which of these locks stand on this master.
async fn on(cluster: &Cluster, master: &Server, keys: &[String]) -> Vec<usize> {
    let mut here = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        if cluster.master_of(&format!("lock:{key}")).await.port() == master.port() {
            here.push(n);
        }
    }
    here
}

async fn nothing_stays_locked(cluster: &Cluster) {
    let raw = cluster.raw();
    eventually(secs(30), || async {
        let mut keys = raw.keys("lock:*").await;
        keys.retain(|key| !key.ends_with(":fence"));
        if keys.is_empty() { Ok(()) } else { Err(keys) }
    })
    .await;
}

fn kind_of(error: &LockError) -> NodeErrorKind {
    let LockError::Unavailable { nodes, .. } = error else { panic!("{error:?}") };
    nodes[0].kind()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_leases_over_all_slots_are_renewed_together() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = builder(&cluster).build().await.unwrap();
    let mut guards = Vec::new();
    for n in 0..300 {
        // Some of them share a slot.
        let key = if n % 3 == 0 { format!("{{shop-{}}}-{n}", n % 30) } else { format!("lock-{n}") };
        guards.push(redlock.lock(key).expire(secs(6)).acquire().await.unwrap());
    }
    for guard in &guards {
        eventually(secs(30), || async { guard.renewals() >= 2 || guard.check().is_err() }).await;
        guard.check().unwrap();
    }
    let mut used = 0;
    for master in cluster.masters().await {
        used += usize::from(!master.raw().keys("lock:*").await.is_empty());
    }
    assert_eq!(used, 3);
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
    nothing_stays_locked(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_costs_the_leases_it_had_and_no_others() {
    let cluster = Cluster::start_with(ms(1500), PARTLY).await;
    let redlock = builder(&cluster).build().await.unwrap();
    let old = cluster.masters().await[1];
    let names = keys("load", 12);
    let load = Load::start(&redlock, &names);
    let (held, expire) = (keys("held", 12), secs(2));
    let hit = on(&cluster, old, &held).await;
    let spared: Vec<usize> = (0..names.len()).collect();
    let struck = on(&cluster, old, &names).await;
    let spared: Vec<usize> = spared.into_iter().filter(|n| !struck.contains(n)).collect();
    assert!(!hit.is_empty() && !struck.is_empty() && !spared.is_empty());
    load.goes_on(0..12).await;

    let (mut holders, mut others) = (Vec::new(), Vec::new());
    for (n, key) in held.iter().enumerate() {
        let is_hit = hit.contains(&n);
        let expire = if is_hit { expire } else { secs(6) };
        let guard = redlock.lock(key).expire(expire).acquire().await.unwrap();
        if is_hit {
            holders.push(tokio::spawn(work_until_lost(guard)));
        } else {
            others.push(guard);
        }
    }
    let killed = Instant::now();
    old.kill9();
    // The other masters serve their locks, while nobody serves those of the dead one.
    load.goes_on(spared).await;
    for holder in holders {
        let (reason, last_step) = holder.await.unwrap();
        assert_eq!(reason, LostReason::Unreachable);
        assert!(last_step < killed + expire, "worked on {:?}", last_step - killed);
    }
    cluster.successor_of(old, &format!("lock:{}", names[struck[0]])).await;
    load.goes_on(0..12).await;
    for guard in others {
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
    old.start_again().await;
    cluster.until_ready().await;
    load.goes_on(0..12).await;
    load.end().await;
    nothing_stays_locked(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_delays_no_lock_of_the_others() {
    let cluster = Cluster::start_with(secs(6), PARTLY).await;
    let redlock = builder(&cluster).build().await.unwrap();
    let frozen = cluster.masters().await[0];
    let names = keys("load", 12);
    let struck = on(&cluster, frozen, &names).await;
    let spared: Vec<usize> = (0..names.len()).filter(|n| !struck.contains(n)).collect();
    let load = Load::start(&redlock, &names);
    let mut guards = Vec::new();
    for n in 0..60 {
        let key = format!("kept-{n}");
        let is_spared = on(&cluster, frozen, std::slice::from_ref(&key)).await.is_empty();
        let guard = redlock.lock(&key).expire(secs(6)).acquire().await.unwrap();
        if is_spared { guards.push(guard) } else { drop(tokio::spawn(work_until_lost(guard))) }
    }
    load.goes_on(0..12).await;
    frozen.freeze();
    // Renewed again and again, though leases of the frozen one are due in the same batches.
    let before: Vec<u32> = guards.iter().map(|guard| guard.renewals()).collect();
    for (guard, before) in guards.iter().zip(before) {
        let renewed = || async { guard.renewals() >= before + 2 || guard.check().is_err() };
        eventually(secs(60), renewed).await;
        guard.check().unwrap();
    }
    load.goes_on(spared).await;
    cluster.successor_of(frozen, &format!("lock:{}", names[struck[0]])).await;
    load.goes_on(0..12).await;
    for guard in &guards {
        guard.check().unwrap();
    }
    frozen.thaw();
    load.goes_on(0..12).await;
    load.end().await;
    drop(guards);
    nothing_stays_locked(&cluster).await;
}

/// The client library has bounds of its own, of which none may end a command before.
#[tokio::test]
async fn a_long_reply_timeout_is_kept() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = builder(&cluster).reply_timeout(secs(30)).build().await.unwrap();
    let frozen = cluster.master_of("lock:k").await;
    frozen.freeze();
    let mut attempt = Box::pin(redlock.lock("k").try_acquire());
    let early = tokio::time::timeout(secs(7), &mut attempt).await;
    assert!(early.is_err(), "nothing has answered");
    frozen.thaw();
    assert!(attempt.await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_grow_over_a_failover() {
    let cluster = Cluster::start().await;
    let redlock = builder(&cluster).build().await.unwrap();
    let guard = redlock.lock("k").expire(secs(2)).acquire().await.unwrap();
    let token = guard.fencing_token();
    let old = cluster.master_of("lock:k").await;
    // Without what it had: not even the counter survives.
    let replica = &cluster.nodes()[3..];
    old.kill9();
    guard.lost().await;
    drop(guard);
    let new = cluster.successor_of(old, "lock:k").await;
    assert!(replica.iter().any(|node| node.port() == new.port()));
    new.raw().cmd(&["FLUSHALL"]).await;
    let next = redlock.lock("k").wait(secs(30)).acquire().await.unwrap();
    assert!(next.fencing_token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_of_masters_locks_are_unavailable_within_their_wait() {
    let captured = capture();
    let cluster = Cluster::start_with(secs(2), &["cluster-replica-no-failover yes"]).await;
    let redlock = builder(&cluster).client_name("alone-3").build().await.unwrap();
    let masters = cluster.masters().await;
    let name = keys("k", 50);
    let alive = on(&cluster, masters[2], &name).await[0];
    let dead = on(&cluster, masters[0], &name).await[0];
    let guard = redlock.lock("{held}").expire(secs(2)).acquire().await.unwrap();
    masters[0].kill9();
    masters[1].kill9();
    let lock = redlock.lock(&name[dead]).wait(secs(2)).acquire();
    let error = within(secs(20), lock).await.unwrap_err();
    kind_of(&error);
    // Once the last one knows that it is alone, it refuses as well.
    let down = || async {
        let lock = redlock.lock(&name[alive]).wait(secs(1)).acquire();
        match within(secs(20), lock).await {
            Err(error) if kind_of(&error) == NodeErrorKind::Cluster => Ok(()),
            other => Err(other),
        }
    };
    eventually(secs(30), down).await;
    // One master answers, with a refusal: operators are not told that nobody does.
    captured.wait_for(secs(30), "alone-3", ": all of it, or a part; until that is back").await;
    guard.lost().await;
    assert_eq!(guard.state(), LeaseState::Lost);
    drop(guard);
    masters[0].start_again().await;
    masters[1].start_again().await;
    for key in [dead, alive] {
        let lock = redlock.lock(&name[key]).wait(secs(60));
        lock.run(async {}).await.unwrap();
    }
    nothing_stays_locked(&cluster).await;
}

#[tokio::test]
async fn a_whole_cluster_may_go_and_come_back() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = builder(&cluster).build().await.unwrap();
    redlock.lock("k").run(async {}).await.unwrap();
    for node in cluster.nodes() {
        node.kill9();
    }
    let lock = redlock.lock("k").wait(secs(1)).acquire();
    let error = within(secs(20), lock).await.unwrap_err();
    let expected = [NodeErrorKind::Unreachable, NodeErrorKind::NoReply];
    assert!(expected.contains(&kind_of(&error)), "{error}");
    for node in cluster.nodes() {
        node.start_again().await;
    }
    redlock.lock("k").wait(secs(60)).run(async {}).await.unwrap();
}

#[tokio::test]
async fn a_plain_client_is_told_that_this_is_a_cluster() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let url = cluster.nodes()[0].url();
    let at_startup = Redlock::connect(url.as_str()).await.unwrap_err();
    // A client that does not ask then is told by the first lock that stands elsewhere.
    let redlock = Redlock::builder().url(url).lazy().build().await.unwrap();
    let elsewhere = on(&cluster, &cluster.nodes()[1], &keys("k", 50)).await[0];
    let lock = redlock.lock(format!("k-{elsewhere}")).wait(secs(20));
    let at_lock = within(secs(10), lock.acquire()).await.unwrap_err();
    for error in [at_startup, at_lock] {
        assert_eq!(kind_of(&error), NodeErrorKind::Cluster);
        assert!(error.to_string().contains(".cluster(urls)"), "{error}");
    }
}

#[tokio::test]
async fn one_seed_that_is_up_is_enough_and_passwords_do_not_show() {
    const SECRET: &str = "hunter2-Zq9vXw71";
    let user = format!("user locks on >{SECRET} ~* +@all");
    let cluster = Cluster::start_with(secs(60), &[&user]).await;
    let login = |password: &str| cluster.nodes()[1].url_for("locks", password);
    let urls = ["redis://locks:".to_owned() + SECRET + "@127.0.0.1:1", login(SECRET)];
    let good = Redlock::builder().cluster(&urls).prefix(unique_prefix());
    assert!(!format!("{good:?}").contains(SECRET));
    let redlock = good.build().await.unwrap();
    for key in keys("k", 20) {
        let guard = redlock.lock(key).acquire().await.unwrap();
        assert!(!format!("{redlock:?} {guard:?}").contains(SECRET));
    }
    let wrong = format!("{SECRET}-not");
    let error = Redlock::builder().cluster([login(&wrong)]).build().await.unwrap_err();
    assert_eq!(kind_of(&error), NodeErrorKind::Authentication, "{error}");
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
}

#[tokio::test]
async fn a_cluster_is_one_place_and_no_part_of_a_quorum() {
    let url = "redis://127.0.0.1:1";
    let refused = |builder: RedlockBuilder| async move {
        builder.lazy().build().await.unwrap_err().to_string()
    };
    let two = Redlock::builder().cluster([url]).cluster([url]);
    assert!(refused(two).await.contains("stands alone"));
    let guarded = Redlock::builder().cluster([url]).restart_guard(true);
    assert!(refused(guarded).await.contains("`restart_guard`"));
    let numbered = Redlock::builder().cluster([url, "redis://:s3cret@127.0.0.1:1/2"]);
    let error = refused(numbered).await;
    assert!(error.contains("redis://127.0.0.1:1/2` names a database"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
    let away = Redlock::builder().cluster([url]).build().await.unwrap_err().to_string();
    assert!(away.contains("`cluster-announce-ip`"), "{away}");
    let none: [&str; 0] = [];
    assert!(refused(Redlock::builder().cluster(none)).await.contains("names no server"));
}
