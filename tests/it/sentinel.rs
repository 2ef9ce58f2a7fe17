//! A master that sentinels watch dies, freezes and is replaced.

use std::time::Instant;

use redlock::{LockError, LostReason, NodeErrorKind, Redlock, RedlockBuilder, Wait};

use crate::load::{Load, work_until_lost};
use crate::support::{Sentinels, Server, eventually, secs};

const MASTER: &str = Sentinels::MASTER;

fn builder(set: &Sentinels) -> RedlockBuilder {
    Redlock::builder().sentinel(set.urls(), MASTER)
}

fn keys(name: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{name}-{i}")).collect()
}

/// It has no locks, but answers INFO.
#[tokio::test]
async fn a_sentinel_is_not_taken_for_a_server() {
    let sentinel = Server::builder().sentinel().start().await;
    let error = Redlock::connect(sentinel.url()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("this is a sentinel"), "{text}");
    assert!(text.contains("`.sentinel(urls, name)`"), "{text}");
    assert_eq!(error.retry_after(), None, "time does not help");
}

async fn nothing_stays_locked(master: &Server) {
    let raw = master.raw();
    eventually(secs(20), || async {
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
async fn a_killed_master_costs_the_leases_it_had_and_nothing_else() {
    let set = Sentinels::start().await;
    let redlock = builder(&set).build().await.unwrap();
    let load = Load::start(&redlock, &keys("load", 12));
    load.goes_on(0..12).await;
    let expire = secs(2);
    let mut holders = Vec::new();
    for key in keys("held", 10) {
        let guard = redlock.lock(key).expire(expire).acquire().await.unwrap();
        holders.push(tokio::spawn(work_until_lost(guard)));
    }
    let old = set.master().await;
    let killed = Instant::now();
    old.kill9();
    for holder in holders {
        let (reason, last_step) = holder.await.unwrap();
        // The sentinels need longer than a lease to agree, so that nobody could confirm it.
        assert_eq!(reason, LostReason::Unreachable);
        assert!(last_step < killed + expire, "worked on {:?}", last_step - killed);
    }
    let new = set.successor_of(old).await;
    load.goes_on(0..12).await;
    old.start_again().await;
    set.agree().await;
    load.goes_on(0..12).await;
    load.end().await;
    nothing_stays_locked(new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_replicated_lives_on_with_the_new_master() {
    let set = Sentinels::start().await;
    let redlock = builder(&set).build().await.unwrap();
    let guard = redlock.lock("long").expire(secs(30)).acquire().await.unwrap();
    let old = set.master().await;
    // WAIT counts what its own connection has written: something behind the lock.
    let raw = old.raw();
    raw.cmd(&["SET", "behind", "v"]).await;
    assert_eq!(raw.int(&["WAIT", "2", "20000"]).await, 2);
    raw.del("behind").await;
    old.freeze();
    let new = set.successor_of(old).await;
    assert_eq!(new.raw().get("lock:long").await.as_deref(), Some(guard.owner()));
    let other = builder(&set).build().await.unwrap();
    assert!(other.lock("long").try_acquire().await.unwrap().is_none(), "it is excluded");
    // The renewals find their way as well.
    eventually(secs(60), || async { guard.renewals() >= 1 }).await;
    let token = guard.fencing_token();
    // The first release is sent to the frozen one, and told to have had no reply; others follow.
    drop(guard);
    let next = other.lock("long").wait(secs(20)).acquire().await.unwrap();
    assert!(next.fencing_token() > token);
}

/// It may have missed locks; nobody gets one until they are over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_guard_a_promoted_replica_has_no_vote_at_first() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let redlock = builder(&set).restart_guard(true).build().await.unwrap();
    redlock.lock("short").expire(secs(6)).wait(secs(60)).run(async {}).await.unwrap();
    set.failover().await;
    // Until the sentinels have told this client, or the old one, that one is the master still.
    let is_doubted = || async {
        let request = redlock.lock("k").expire(secs(6)).wait(Wait::Never);
        let told = request.acquire().await.err().map(|error| error.to_string());
        if told.iter().any(|told| told.contains("a replica took its place")) {
            Ok(())
        } else {
            Err(told)
        }
    };
    eventually(secs(60), is_doubted).await;
    redlock.lock("k").expire(secs(6)).wait(secs(60)).run(async {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_master_is_left_at_once() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let redlock = builder(&set).build().await.unwrap();
    let load = Load::start(&redlock, &keys("load", 4));
    for _ in 0..2 {
        load.goes_on(0..4).await;
        set.failover().await;
        load.goes_on(0..4).await;
    }
    load.end().await;
    nothing_stays_locked(set.master().await).await;
}

#[tokio::test]
async fn sentinels_may_be_down_as_long_as_one_answers() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    for sentinel in &set.sentinels()[..2] {
        sentinel.kill9();
    }
    let redlock = builder(&set).build().await.unwrap();
    redlock.lock("k").run(async {}).await.unwrap();
    // A connection that is there needs none of them.
    set.sentinels()[2].kill9();
    redlock.lock("k").run(async {}).await.unwrap();
    let error = builder(&set).build().await.unwrap_err();
    assert_eq!(kind_of(&error), NodeErrorKind::Unreachable);
    assert!(error.to_string().contains("sentinel mymaster"), "{error}");
}

/// A sentinel that watches this master, and no more of its kind.
async fn sentinel_of(master: &Server, epoch: u32) -> Server {
    let builder = Server::builder()
        .config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 2", master.port()))
        .config(&format!("sentinel down-after-milliseconds {MASTER} 60000"))
        .config(&format!("sentinel config-epoch {MASTER} {epoch}"));
    builder.sentinel().start().await
}

/// How many of these clients, each with connections of its own, found the second master.
async fn found_second(masters: &[Server; 2], sentinels: &[Server], clients: usize) -> usize {
    let urls = || sentinels.iter().map(Server::url);
    for n in 0..clients {
        let redlock = Redlock::builder().sentinel(urls(), MASTER).build().await.unwrap();
        redlock.lock(format!("k{n}")).wait(secs(20)).run(async {}).await.unwrap();
    }
    let found = async |master: &Server| master.raw().keys("*:fence").await.len();
    assert_eq!(found(&masters[0]).await + found(&masters[1]).await, clients);
    found(&masters[1]).await
}

/// It was cut off together with a master that was replaced, and clients reach both sides.
#[tokio::test]
async fn a_sentinel_that_has_not_heard_of_a_failover_is_outvoted() {
    let masters = [Server::start().await, Server::start().await];
    let stale = sentinel_of(&masters[0], 0).await;
    let sentinels = [stale, sentinel_of(&masters[1], 1).await, sentinel_of(&masters[1], 1).await];
    assert_eq!(found_second(&masters, &sentinels, 50).await, 50);
}

#[tokio::test]
async fn of_two_sentinels_the_one_counts_that_knows_the_latest_failover() {
    let masters = [Server::start().await, Server::start().await];
    for epochs in [[0, 1], [3, 7]] {
        let [stale, fresh] = [0, 1].map(|at| sentinel_of(&masters[at], epochs[at]));
        let sentinels = [stale.await, fresh.await];
        masters[1].raw().cmd(&["FLUSHALL"]).await;
        assert_eq!(found_second(&masters, &sentinels, 10).await, 10);
    }
}

/// Those that were cut off are more than those that were not, and most cannot be asked.
#[tokio::test]
async fn without_a_majority_the_latest_failover_decides() {
    let masters = [Server::start().await, Server::start().await];
    let mut sentinels = Vec::new();
    for (at, epoch) in [(0, 0), (0, 0), (1, 1), (1, 1), (1, 1)] {
        sentinels.push(sentinel_of(&masters[at], epoch).await);
    }
    for dead in &sentinels[3..] {
        dead.kill9();
    }
    assert_eq!(found_second(&masters, &sentinels, 10).await, 10);
}

/// The master before lives, and its clients reach it: only the sentinels do not.
#[tokio::test]
async fn a_client_follows_a_failover_that_breaks_no_connection() {
    let masters = [Server::start().await, Server::start().await];
    let mut sentinels = Vec::new();
    for _ in 0..3 {
        sentinels.push(sentinel_of(&masters[0], 0).await);
    }
    let urls: Vec<String> = sentinels.iter().map(Server::url).collect();
    let redlock = Redlock::builder().sentinel(urls, MASTER).build().await.unwrap();
    redlock.lock("before").run(async {}).await.unwrap();
    let port = masters[1].port().to_string();
    for sentinel in &sentinels[..2] {
        let raw = sentinel.raw();
        raw.cmd(&["SENTINEL", "REMOVE", MASTER]).await;
        raw.cmd(&["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &port, "2"]).await;
    }
    let moves = || async {
        // What is granted at the very moment of the move does not count.
        let guard = redlock.lock("k").wait(secs(20)).acquire().await.map_err(|_| ())?;
        let key = guard.redis_key();
        if masters[1].raw().get(key).await.is_some() { Ok(guard) } else { Err(()) }
    };
    let guard = eventually(secs(20), moves).await;
    eventually(secs(20), || async { guard.renewals() >= 1 }).await;
    let is_left = || async {
        let clients = format!("{:?}", masters[0].raw().cmd(&["CLIENT", "LIST"]).await);
        if clients.contains("name=redlock:") { Err(clients) } else { Ok(()) }
    };
    eventually(secs(20), is_left).await;
}

#[tokio::test]
async fn what_is_no_sentinel_or_no_master_is_told() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let error = Redlock::builder().sentinel(set.urls(), "other").build().await.unwrap_err();
    assert_eq!(kind_of(&error), NodeErrorKind::NoMaster);
    assert!(error.to_string().contains("sentinel other"), "{error}");

    let wrong = set.servers().iter().map(Server::url);
    let error = Redlock::builder().sentinel(wrong, MASTER).build().await.unwrap_err();
    let error = error.to_string();
    let is_named = |server: &Server| error.contains(&server.addr().to_string());
    assert!(error.contains("not point to a sentinel"), "{error}");
    assert!(set.servers().iter().any(is_named), "{error}");
}

#[tokio::test]
async fn without_a_master_a_lock_is_unavailable_within_its_wait() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let redlock = builder(&set).build().await.unwrap();
    for server in set.servers() {
        server.freeze();
    }
    let lock = redlock.lock("k").wait(secs(2)).acquire();
    let error = crate::support::within(secs(20), lock).await.unwrap_err();
    // Of a connection that was there, or of one that is not made in time.
    let kind = kind_of(&error);
    assert!(matches!(kind, NodeErrorKind::NoReply | NodeErrorKind::Unreachable), "{error}");
    for server in set.servers() {
        server.thaw();
    }
    // Nothing of the attempts that were carried out late stays behind.
    nothing_stays_locked(set.master().await).await;
    redlock.lock("k").wait(secs(20)).run(async {}).await.unwrap();
}

#[tokio::test]
async fn the_login_of_the_master_stands_in_its_url_and_nowhere_else() {
    const SECRET: &str = "hunter2-Zq9vXw71";
    let user = format!("user locks on >{SECRET} ~lock:* ~{{lock:*}}:fence +@all");
    let set = Sentinels::start_with(secs(60), &[&user]).await;
    let builder = |login: &str| {
        let master = format!("redis://{login}@{MASTER}/3");
        Redlock::builder().sentinel(set.urls(), master)
    };
    let good = builder(&format!("locks:{SECRET}"));
    assert!(!format!("{good:?}").contains(SECRET));
    let redlock = good.build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let raw = set.master().await.raw();
    raw.cmd(&["SELECT", "3"]).await;
    assert_eq!(raw.get("lock:k").await.as_deref(), Some(guard.owner()));
    assert!(!format!("{redlock:?} {guard:?}").contains(SECRET));

    let error = builder(&format!("stranger:{SECRET}")).build().await.unwrap_err();
    assert_eq!(kind_of(&error), NodeErrorKind::Authentication);
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
    assert!(error.to_string().contains(&set.master().await.addr().to_string()), "{error}");
}
