//! Connections that take longer to be made than the call that wants them may take, and callers that
//! block their runtime.

use std::net::TcpListener;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use redlock::{
    LockError, LockGuard, NodeError, NodeErrorKind, Redlock, Released, Wait, redis_lock,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::executor::park_on;
use crate::fault_kit::runtime;
use crate::support::proxy::Proxy;
use crate::support::{
    Cluster, Masters, Sentinels, Server, capture, eventually, ms, secs, unique_prefix, within,
};

/// A renewal of a lease of twelve seconds may take one second: more than this round trip, and less
/// than a connect and this round trip.
const EXPIRE: Duration = secs(12);
const ROUND_TRIP: Duration = ms(600);

/// Far away from now on, and every connection breaks.
fn cut(proxies: &[Proxy]) {
    for proxy in proxies {
        proxy.delay_replies(ROUND_TRIP);
        proxy.cut_all();
    }
}

async fn assert_renewed(guard: &LockGuard) {
    eventually(secs(60), || async { guard.renewals() >= 2 || guard.check().is_err() }).await;
    guard.check().expect("the connection is back before the lease is over");
}

#[tokio::test]
async fn renewals_come_back_when_a_connect_takes_longer_than_they_may() {
    let server = Server::shared().await;
    let proxies = [Proxy::start(server)];
    let builder = Redlock::builder().url(proxies[0].url()).prefix(unique_prefix());
    let redlock = builder.build().await.unwrap();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    cut(&proxies);
    assert_renewed(&guard).await;
}

#[tokio::test]
async fn renewals_of_three_masters_come_back_too() {
    let masters = Masters::start(3).await;
    let proxies: Vec<Proxy> = masters.iter().map(Proxy::start).collect();
    let urls = proxies.iter().map(Proxy::url);
    let redlock = Redlock::builder().urls(urls).build().await.unwrap();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    cut(&proxies);
    assert_renewed(&guard).await;
}

/// Each connection takes more round trips than fit into `reply_timeout`.
#[tokio::test]
async fn a_client_is_built_over_a_long_way() {
    let masters = Masters::start(3).await;
    let proxies: Vec<Proxy> = masters.iter().map(Proxy::start).collect();
    for proxy in &proxies {
        proxy.delay_replies(ms(400));
    }
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let one = Redlock::builder().url(&urls[0]);
    let guarded = one.clone().restart_guard(true).longest_expire(ms(10));
    for builder in [one, guarded, Redlock::builder().urls(&urls)] {
        builder.reply_timeout(secs(1)).build().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_is_built_by_way_of_sentinels_over_a_long_way() {
    let (set, proxies) = Sentinels::start_behind_proxies(secs(60), &[]).await;
    for proxy in &proxies {
        // The client library of its own would give up after half a second.
        proxy.delay_replies(ms(700));
    }
    let builder = Redlock::builder().sentinel(set.urls(), Sentinels::MASTER);
    builder.reply_timeout(secs(1)).build().await.unwrap();
}

/// How many connections to servers at these ports, of whatever process, are kept alive by the
/// kernel.
#[cfg(target_os = "linux")]
fn kept_alive(ports: &[u16]) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let is_kept = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
        let is_to = port(columns[2]).is_some_and(|port| ports.contains(&port));
        // Within 15 s: a server's own keepalive takes longer.
        let due = columns[5].strip_prefix("02:").map(|ticks| u64::from_str_radix(ticks, 16));
        is_to && columns[3] == "01" && due.is_some_and(|due| due.is_ok_and(|due| due <= 1500))
    };
    table.lines().skip(1).filter(is_kept).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_are_kept_alive() {
    let (one, set) = (Server::start().await, Sentinels::start_with(secs(60), &[]).await);
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let master = set.master().await;
    let of_cluster: Vec<u16> = cluster.masters().await.iter().map(|node| node.port()).collect();
    for (builder, ports) in [
        (Redlock::builder().url(one.url()), vec![one.port()]),
        (Redlock::builder().sentinel(set.urls(), Sentinels::MASTER), vec![master.port()]),
        (Redlock::builder().cluster(cluster.urls()), of_cluster),
    ] {
        let redlock = builder.build().await.unwrap();
        redlock.lock("k").run(async {}).await.unwrap();
        // Those for calls and for renewals.
        eventually(secs(10), || async { kept_alive(&ports) >= 2 }).await;
    }
}

/// The first connection to it may take ten seconds.
#[tokio::test]
async fn a_silent_minority_does_not_hold_up_a_client_that_is_built() {
    let captured = capture();
    let masters = Masters::start(3).await;
    let silent = Proxy::start(&masters[2]);
    silent.black_hole();
    let urls = [masters[0].url(), masters[1].url(), silent.url()];
    let start = Instant::now();
    Redlock::builder().urls(urls).build().await.unwrap();
    assert!(start.elapsed() < secs(8), "{:?}", start.elapsed());
    let warnings = captured.warnings_about(&silent.addr().to_string());
    let told = "a node of the quorum cannot be used now";
    assert!(warnings.iter().any(|warning| warning.message == told), "{warnings:?}");
}

/// Each of them gives up before a connection is made; the next one finds it.
#[tokio::test]
async fn calls_that_wait_shorter_than_a_connect_takes_find_it_made() {
    let proxies = [Proxy::start(Server::shared().await)];
    let builder = Redlock::builder().url(proxies[0].url()).prefix(unique_prefix());
    let redlock = builder.build().await.unwrap();
    cut(&proxies);
    let before = proxies[0].connections();
    let call = || redlock.lock("k").wait(ms(500)).run(async {});
    eventually(secs(10), || async { call().await }).await;
    // Two for commands and one for calls, each of which may have had company.
    let made = proxies[0].connections() - before;
    assert!(made <= 9, "{made} connections were made");
}

/// The first thing that is said on each of them gets no answer.
#[tokio::test]
async fn a_connect_that_is_silent_gets_company() {
    let proxies = [Proxy::start(Server::shared().await)];
    let builder = Redlock::builder().url(proxies[0].url()).prefix(unique_prefix());
    let redlock = builder.reply_timeout(secs(60)).build().await.unwrap();
    proxies[0].cut_all();
    eventually(secs(10), || async { proxies[0].open_connections() == 0 }).await;
    proxies[0].drop_next_replies(2);
    within(secs(30), redlock.lock("k").wait(secs(60)).run(async {})).await.unwrap();
}

/// They try to get to know the group together, not one after another.
#[tokio::test]
async fn calls_on_frozen_masters_end_with_their_wait() {
    let masters = Masters::start(3).await;
    let redlock = Redlock::builder().urls(masters.urls()).lazy().build().await.unwrap();
    masters.iter().for_each(Server::freeze);
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let call = redlock.lock(format!("k-{n}")).wait(secs(1)).acquire();
            tokio::spawn(async move {
                let start = Instant::now();
                (call.await.map(drop), start.elapsed())
            })
        })
        .collect();
    for call in calls {
        let (outcome, took) = call.await.unwrap();
        assert!(matches!(outcome, Err(LockError::Unavailable { .. })), "{outcome:?}");
        assert!(took < secs(8), "{took:?}");
    }
    masters.iter().for_each(Server::thaw);
    redlock.lock("k").wait(secs(60)).run(async {}).await.unwrap();
}

/// Before the first lock, when nothing is known of the group yet. Nobody serves these low ports.
#[tokio::test]
async fn masters_that_refuse_are_not_reported_as_silent() {
    use NodeErrorKind::{NoReply, Unreachable};
    const REFUSING: [&str; 2] = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"];
    let silent = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let silent = silent.each_ref().map(|port| format!("redis://{}", port.local_addr().unwrap()));
    let kinds_of = async |urls: [&str; 3], reply_timeout| {
        let builder = Redlock::builder().urls(urls).reply_timeout(reply_timeout).lazy();
        let redlock = builder.build().await.unwrap();
        let outcome = redlock.lock("k").wait(Wait::Never).acquire().await;
        let Err(LockError::Unavailable { nodes, .. }) = outcome else { panic!("{outcome:?}") };
        nodes.iter().map(NodeError::kind).collect::<Vec<_>>()
    };
    // The silent one changes nothing, and is not waited for.
    let urls = [&silent[0], REFUSING[0], REFUSING[1]];
    assert_eq!(within(secs(60), kinds_of(urls, secs(120))).await, [Unreachable; 2]);
    let urls = [&silent[0], &silent[1], REFUSING[0]];
    assert_eq!(kinds_of(urls, secs(2)).await, [NoReply, NoReply, Unreachable]);
}

#[redis_lock(key = "k", client = redlock)]
async fn locked(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

/// What callers must not do, and do: a task that blocks on a lock keeps its worker thread from all
/// that would have to run there, the driver of its local connection among them. More often than a
/// task has turns.
fn block_in_a_task(runtime: &Handle) -> Result<Result<(), LockError>, RecvTimeoutError> {
    let (tell, told) = mpsc::channel();
    runtime.spawn(async move {
        let server = Server::shared().await;
        let builder = Redlock::builder().url(server.url()).prefix(unique_prefix());
        let redlock = builder.build().await.unwrap();
        // Until this runtime has a local connection.
        for _ in 0..200 {
            locked(&redlock).await.unwrap();
        }
        let call = || {
            park_on(async {
                let guard = redlock.lock("guard").acquire().await?;
                guard.release().await?;
                locked(&redlock).await
            })
        };
        tell.send((0..300).try_for_each(|_| call()))
    });
    told.recv_timeout(secs(60))
}

#[test]
fn a_task_that_blocks_on_a_lock_is_served_beside_others() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = block_in_a_task(runtime.handle());
    runtime.shutdown_background();
    outcome.expect("it hangs").unwrap();
}

#[test]
fn a_task_that_blocks_on_a_lock_is_served_on_the_only_thread() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || runtime.block_on(stopped));
    block_in_a_task(&handle).expect("it hangs").unwrap();
    drop(stop);
}

/// Nobody drives the connection that the release left on.
#[test]
fn a_release_that_blocks_the_only_thread_says_what_was_found() {
    let runtime = runtime();
    for keys in [&["one"][..], &["one", "two"]] {
        runtime.block_on(async {
            let server = Server::shared().await;
            let builder = Redlock::builder().url(server.url()).prefix(unique_prefix());
            let redlock = builder.build().await.unwrap();
            // Until this runtime has a local connection.
            for _ in 0..200 {
                locked(&redlock).await.unwrap();
            }
            let guard = redlock.lock_all(keys).acquire().await.unwrap();
            assert_eq!(park_on(guard.release()), Ok(Released::Released), "{keys:?}");
        });
    }
}
