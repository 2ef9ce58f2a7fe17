//! Holders that die, freeze or are cut off, while others wait for the lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redlock::{Redlock, Released};

use crate::fault_kit::{LONG, NOISE, client, nothing_left};
use crate::fault_store::{Store, turn};
use crate::support::{Process, Proxy, Raw, Server, eventually, ms, secs, unique_prefix};

const EXPIRE: Duration = ms(300);
const RESOURCES: usize = 5;
const ROUNDS: usize = 10;

#[tokio::test]
async fn the_lock_of_a_killed_holder_is_free_when_its_lease_ends_and_not_before() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let raw = server.raw();
    let mut holder = Process::spawn("hold", &[&server.url(), &prefix, "k", "1500"]);
    holder.event("held").await;
    let next = tokio::spawn(redlock.lock("k").wait(LONG).acquire());
    holder.sigkill();
    let looked = Instant::now();
    let rest = raw.pttl(&format!("{prefix}k")).await.expect("a dead holder releases nothing");
    let guard = next.await.unwrap().unwrap();
    let waited = looked.elapsed();
    // PTTL is rounded to whole milliseconds.
    assert!(waited + ms(2) >= rest, "{waited:?} of {rest:?}: before the lease had ended");
    assert!(waited < rest + NOISE, "{waited:?} of {rest:?}");
    assert_eq!(guard.release().await, Ok(Released::Released));
}

/// Which worker holds the lock now; `client_name` begins the owner value.
pub async fn holder(raw: &Raw, key: &str) -> usize {
    let name = eventually(NOISE, || async {
        let owner = raw.get(key).await?;
        owner.split_once(':').and_then(|(name, _)| name.parse().ok())
    });
    name.await
}

pub async fn other_than(raw: &Raw, key: &str, first: usize) {
    eventually(NOISE, || async { holder(raw, key).await != first }).await;
}

/// Bodies that were stopped, and those that began a step after their lease was over.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    stopped: usize,
    late: usize,
}

impl Counts {
    fn and(self, other: Counts) -> Counts {
        Counts { stopped: self.stopped + other.stopped, late: self.late + other.late }
    }
}

/// Two processes that share a counter; whoever holds the lock is frozen until the other has it.
async fn freeze_holders(server: &'static Server) -> Counts {
    let (prefix, raw) = (unique_prefix(), server.raw());
    let (key, name) = (format!("{prefix}k"), format!("store-{prefix}"));
    let expire = EXPIRE.as_millis().to_string();
    let mut workers = ["0", "1"].map(|worker| {
        Process::spawn("increment", &[&server.url(), &prefix, "k", &expire, worker, &name])
    });
    for worker in &mut workers {
        worker.event("ready").await;
    }
    let mut counts_of = [Counts::default(); 2];
    for _ in 0..ROUNDS {
        let frozen = holder(&raw, &key).await;
        workers[frozen].sigstop();
        other_than(&raw, &key, frozen).await;
        // What it said before it was frozen does not count.
        drop(workers[frozen].events());
        workers[frozen].sigcont();
        // It takes part again before the next one is frozen.
        let wrote = workers[frozen].event_within(secs(20), "wrote").await;
        let counts: Vec<usize> = wrote.split(' ').map(|count| count.parse().unwrap()).collect();
        assert!(counts[2] <= 1, "{} steps began after the lease", counts[2]);
        counts_of[frozen] = Counts { stopped: counts[0], late: counts[1] };
    }
    for worker in &mut workers {
        worker.sigkill();
    }
    Store::new(raw, &name).assert_sound(10).await;
    let [a, b] = counts_of;
    a.and(b)
}

#[tokio::test]
async fn holders_that_were_frozen_past_their_lease_do_nothing_more() {
    let server = Server::shared().await;
    let resources: Vec<_> = (0..RESOURCES).map(|_| tokio::spawn(freeze_holders(server))).collect();
    let mut all = Counts::default();
    for resource in resources {
        all = all.and(resource.await.unwrap());
    }
    // The others were frozen between the lock and the body, or behind it.
    assert!(all.stopped >= RESOURCES * ROUNDS / 4, "{all:?}: too few bodies were frozen");
    // A freeze just between the look at the clock and the step is all that may let one through.
    assert!(all.late <= 2, "{all:?}: bodies went on after their lease");
}

/// Cuts a holder off until the other one is in.
pub async fn cut_off(proxy: &Proxy, round: usize, until: impl Future<Output = ()>) {
    match round % 3 {
        0 => proxy.black_hole(),
        1 => {
            proxy.refuse();
            proxy.reset_all();
        }
        _ => proxy.drop_replies(),
    }
    until.await;
    proxy.pass();
    proxy.reset_all();
}

/// Two clients behind wires of their own that share a counter.
async fn disconnect_holders(server: &'static Server) {
    let (prefix, raw) = (unique_prefix(), server.raw());
    let (key, name) = (format!("{prefix}k"), format!("store-{prefix}"));
    let store = Arc::new(Store::new(server.raw(), &name));
    let proxies = [Proxy::start(server), Proxy::start(server)];
    let workers = [0, 1].map(|worker| {
        let builder = Redlock::builder().url(proxies[worker].url()).prefix(prefix.clone());
        let builder = builder.client_name(worker.to_string()).reply_timeout(ms(100)).lazy();
        let store = store.clone();
        tokio::spawn(async move {
            let redlock = builder.build().await.unwrap();
            loop {
                let request = redlock.lock("k").expire(EXPIRE).wait(secs(20));
                let Ok(guard) = request.acquire().await else { continue };
                let late = turn(guard, &store, EXPIRE).await.late;
                assert!(late <= 1, "{late} steps after the lease");
            }
        })
    });
    for round in 0..ROUNDS {
        let before = store.writes().await;
        eventually(NOISE, || async { store.writes().await > before }).await;
        let first = holder(&raw, &key).await;
        cut_off(&proxies[first], round, other_than(&raw, &key, first)).await;
    }
    for worker in workers {
        assert!(!worker.is_finished(), "{:?}", worker.await);
        worker.abort();
    }
    store.assert_sound(10).await;
    nothing_left(&raw, &prefix, NOISE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_that_are_cut_off_write_nothing_after_the_next_one() {
    let server = Server::shared().await;
    let resources: Vec<_> =
        (0..RESOURCES).map(|_| tokio::spawn(disconnect_holders(server))).collect();
    for resource in resources {
        resource.await.unwrap();
    }
}

#[tokio::test]
async fn a_process_that_exits_while_holding_leaves_its_lock_to_the_lease() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let args = [&server.url(), &prefix, "k", "2000"];
    let mut child = Process::spawn("exit-while-holding", &args);
    let owner = child.event("held").await;
    assert_eq!(child.wait(NOISE).await, crate::support::supervise::Exit::Code(3));
    let left = server.raw().get(&format!("{prefix}k")).await;
    assert!(left.is_none_or(|left| left == owner));
    assert_eq!(redlock.lock("k").wait(LONG).run(async { 1 }).await, Ok(1));
}

/// Nobody would hear that a lock was handed over to such a client, not even later.
#[tokio::test]
async fn a_client_without_a_background_thread_is_not_made() {
    let server = Server::shared().await;
    let mut child = Process::spawn("short-of-files", &[&server.url(), &unique_prefix()]);
    assert_eq!(child.event("refused").await, "true");
    assert_eq!(child.event("body").await, "Ok(())");
}

#[tokio::test]
async fn a_body_reads_the_clock_itself_when_the_background_thread_is_stuck() {
    let server = Server::shared().await;
    let mut child =
        Process::spawn("block-the-background-thread", &[&server.url(), &unique_prefix()]);
    child.event("blocked").await;
    let stopped = child.event("stopped").await;
    assert!(stopped.starts_with("false Err(lock `body` was lost"), "{stopped}");
}
