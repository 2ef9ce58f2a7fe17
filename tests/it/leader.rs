//! Leader election under faults: one leader at a time, another one soon after a fault, and at once
//! after a resignation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redlock::{Lease, LockError, LockRequest, Redlock};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Level;

use crate::fault_holders::{cut_off, holder, other_than};
use crate::fault_kit::{LONG, NOISE, client, nothing_left};
use crate::fault_store::{Store, watched};
use crate::support::events::Capture;
use crate::support::supervise::Exit;
use crate::support::{
    Process, Proxy, Raw, Server, capture, counted, eventually, full, ms, secs, time_passes,
    unique_prefix, within,
};

const EXPIRE: Duration = ms(1_000);
const NAMES: [&str; 3] = ["0", "1", "2"];

/// For how long nobody led after each fault.
#[derive(Default)]
struct Gaps(Vec<Duration>);

impl Gaps {
    async fn until(&mut self, next: impl Future<Output = ()>) {
        let begun = Instant::now();
        next.await;
        self.0.push(begun.elapsed());
    }

    fn median(&self) -> Duration {
        let mut gaps = self.0.clone();
        gaps.sort_unstable();
        gaps[gaps.len() / 2]
    }

    /// No machine is so quiet that a bound on the time could be asserted.
    fn tell(&self, faults: &str, bound: Duration) {
        let in_time = self.0.iter().filter(|gap| **gap <= bound).count();
        counted(&format!(
            "{} {faults}: never two leaders, the next one within {bound:?} {in_time} times, \
             {:.0?} at the longest",
            self.0.len(),
            self.0.iter().max().expect("there were faults")
        ));
    }
}

/// Waits for the report of a leader that was stopped; the steps that it began after its lease.
async fn late_steps(candidate: &mut Process) -> usize {
    candidate.event_within(secs(20), "stopped").await.parse().unwrap()
}

/// A candidate that found two leaders has ended by a panic before.
fn kill(candidate: &mut Process) {
    assert_eq!(candidate.sigkill(), Exit::Signal(9), "{}", candidate.stderr());
}

#[tokio::test]
async fn of_three_processes_one_leads_and_another_when_it_is_killed_or_frozen() {
    let server = Server::shared().await;
    let (prefix, raw, url) = (unique_prefix(), server.raw(), server.url());
    let (key, store) = (format!("{prefix}k"), format!("store-{prefix}"));
    let expire = EXPIRE.as_millis().to_string();
    let spawn =
        |name: &str| Process::spawn("lead", &[&url, &url, &prefix, "k", &expire, name, &store]);
    let mut candidates = NAMES.map(spawn);
    let (mut killed, mut frozen) = (Gaps::default(), Gaps::default());
    let rounds = full(6, 50);
    for round in 0..rounds {
        let leader = holder(&raw, &key).await;
        candidates[leader].event_within(secs(20), "wrote").await;
        if round % 2 == 0 {
            candidates[leader].sigstop();
            frozen.until(other_than(&raw, &key, leader)).await;
            // What it said before it was frozen does not count.
            drop(candidates[leader].events());
            candidates[leader].sigcont();
            let late = late_steps(&mut candidates[leader]).await;
            assert!(late <= 1, "{late} steps began after the lease");
        } else {
            kill(&mut candidates[leader]);
            killed.until(other_than(&raw, &key, leader)).await;
            candidates[leader] = spawn(NAMES[leader]);
        }
        let next = holder(&raw, &key).await;
        candidates[next].event_within(secs(20), "wrote").await;
    }
    candidates.iter_mut().for_each(kill);
    Store::new(raw, &store).assert_sound(rounds).await;
    killed.tell("leaders killed", EXPIRE + secs(1));
    frozen.tell("leaders frozen", EXPIRE + secs(1));
}

/// A candidate that counts in a store for ever.
fn counts(request: LockRequest, store: &Arc<Store>) -> JoinHandle<LockError> {
    let (store, late) = (Arc::clone(store), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        let leads = request.expire(EXPIRE).lead(|lease: Lease| {
            let (store, late) = (Arc::clone(&store), Arc::clone(&late));
            async move {
                let work = async {
                    loop {
                        store.increment(&lease).await;
                    }
                };
                watched(work, EXPIRE, &late).await;
            }
        });
        let ended = leads.await.map(|never: ()| never);
        assert!(late.load(Ordering::Relaxed) <= 1, "steps after the lease");
        ended.unwrap_err()
    })
}

async fn still_campaign(candidates: [JoinHandle<LockError>; 3]) {
    for candidate in candidates {
        assert!(!candidate.is_finished(), "{:?}", candidate.await);
        candidate.abort();
        let _ = candidate.await;
    }
}

async fn writes_go_on(store: &Store) {
    let before = store.writes().await;
    eventually(secs(20), || async { store.writes().await > before }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_is_replaced() {
    let server = Server::shared().await;
    let (prefix, raw) = (unique_prefix(), server.raw());
    let (key, name) = (format!("{prefix}k"), format!("store-{prefix}"));
    let store = Arc::new(Store::new(server.raw(), &name));
    let proxies = NAMES.map(|_| Proxy::start(server));
    let mut candidates = Vec::new();
    for (name, proxy) in NAMES.iter().zip(&proxies) {
        let builder = Redlock::builder().url(proxy.url()).prefix(prefix.clone());
        let builder = builder.client_name(*name).reply_timeout(ms(100)).lazy();
        candidates.push(counts(builder.build().await.unwrap().lock("k"), &store));
    }
    // Without replies, renewals that nobody hears of make the lease full again.
    let mut gaps = [Gaps::default(), Gaps::default(), Gaps::default()];
    for round in 0..full(6, 27) {
        writes_go_on(&store).await;
        let leader = holder(&raw, &key).await;
        let next = gaps[round % 3].until(other_than(&raw, &key, leader));
        cut_off(&proxies[leader], round, next).await;
    }
    still_campaign(candidates.try_into().unwrap()).await;
    store.assert_sound(6).await;
    nothing_left(&raw, &prefix, NOISE).await;
    for (gaps, fault) in gaps.iter().zip(["silence", "connections refused", "replies lost"]) {
        gaps.tell(&format!("leaders cut off ({fault})"), EXPIRE + secs(1));
    }
}

/// What an operator reads of a leadership.
fn lines(captured: &Capture, key: &str) -> Vec<String> {
    let about = captured.about(key).into_iter();
    let told = about.filter(|event| event.level <= Level::INFO);
    told.filter(|event| event.target.starts_with("redlock")).map(|event| event.message).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_ride_out_a_server_that_is_down_for_longer_than_a_lease() {
    let (captured, server) = (capture(), Server::builder().append_only("always").start().await);
    let (prefix, resource) = (unique_prefix(), Server::shared().await);
    let key = format!("outage-{prefix}");
    let store = Arc::new(Store::new(resource.raw(), &format!("store-{prefix}")));
    let mut candidates = Vec::new();
    for name in NAMES {
        let builder = Redlock::builder().url(server.url()).prefix(prefix.clone());
        let redlock = builder.client_name(name).lazy().build().await.unwrap();
        candidates.push(counts(redlock.lock(&key), &store));
    }
    let (mut gaps, rounds) = (Gaps::default(), full(2, 25));
    for round in 0..rounds {
        writes_go_on(&store).await;
        if round % 2 == 0 {
            server.restart_keeping_data().await;
        } else {
            server.kill9();
            eventually(NOISE, || async {
                let before = store.writes().await;
                time_passes(2 * EXPIRE).await;
                if store.writes().await == before { Ok(()) } else { Err("it still leads") }
            })
            .await;
            server.start_again().await;
        }
        gaps.until(writes_go_on(&store)).await;
    }
    still_campaign(candidates.try_into().unwrap()).await;
    store.assert_sound(3).await;
    nothing_left(&server.raw(), &prefix, NOISE).await;
    let told = lines(&captured, &key);
    assert!(told.iter().any(|line| line == "leadership lost, campaigning again"), "{told:?}");
    assert!(told.len() < 10 * rounds, "{told:?}");
    gaps.tell("restarts of the server", EXPIRE + secs(1));
}

/// Leads until it is told to end, and says when it is elected.
fn leads_until_told(
    redlock: &Redlock,
    key: &str,
) -> (JoinHandle<Result<(), LockError>>, mpsc::Receiver<String>, mpsc::Sender<()>) {
    let (elected, elections) = mpsc::channel(1);
    let (ends, ended) = mpsc::channel(1);
    let ended = Arc::new(tokio::sync::Mutex::new(ended));
    let leads = redlock.lock(key).expire(LONG).lead(move |lease| {
        let (elected, ended) = (elected.clone(), Arc::clone(&ended));
        async move {
            elected.send(lease.owner().to_owned()).await.expect("somebody hears");
            ended.lock().await.recv().await;
        }
    });
    (tokio::spawn(leads), elections, ends)
}

/// Each of them ends long before the lease of the leader before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_resigns_is_followed_at_once() {
    let captured = capture();
    let server = Server::shared().await;
    let (one, prefix) = client(&server.url()).await;
    let other = || async {
        let builder = Redlock::builder().url(server.url()).prefix(prefix.clone());
        builder.build().await.unwrap()
    };
    let key = format!("leader-{prefix}");
    let (first, mut first_is, ends) = leads_until_told(&one, &key);
    within(NOISE, first_is.recv()).await.unwrap();
    let (second, mut second_is, _ends_second) = leads_until_told(&other().await, &key);
    // It waits in the queue, behind the first and before all others.
    eventually(NOISE, || async { !queue(&server.raw(), &prefix).await.is_empty() }).await;
    ends.send(()).await.unwrap();
    assert_eq!(within(NOISE, first).await.unwrap(), Ok(()));
    within(NOISE, second_is.recv()).await.unwrap();

    let third_client = other().await;
    let (third, mut third_is, _ends_third) = leads_until_told(&third_client, &key);
    eventually(NOISE, || async { !queue(&server.raw(), &prefix).await.is_empty() }).await;
    second.abort();
    within(NOISE, third_is.recv()).await.unwrap();

    let (fourth, mut fourth_is, ends) = leads_until_told(&one, &key);
    eventually(NOISE, || async { !queue(&server.raw(), &prefix).await.is_empty() }).await;
    assert_eq!(third_client.shutdown(NOISE).await, 0);
    let told = within(NOISE, third).await.unwrap();
    assert!(matches!(told, Err(LockError::ShuttingDown { .. })), "{told:?}");
    within(NOISE, fourth_is.recv()).await.unwrap();
    ends.send(()).await.unwrap();
    assert_eq!(within(NOISE, fourth).await.unwrap(), Ok(()));
    nothing_left(&server.raw(), &prefix, NOISE).await;
    let told = lines(&captured, &key);
    let expected = ["elected leader", "leader resigned"].repeat(4);
    assert_eq!(told.len(), expected.len(), "{told:?}");
    assert!(expected.iter().all(|line| told.iter().any(|told| told == line)), "{told:?}");
}

/// What the release and the election of the next one take: a command each, and the news.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_resigns_is_followed_within_two_round_trips() {
    const ROUND_TRIP: Duration = ms(200);
    let server = Server::shared().await;
    let (prefix, raw) = (unique_prefix(), server.raw());
    let (proxies, mut clients) = ([Proxy::start(server), Proxy::start(server)], Vec::new());
    for proxy in &proxies {
        let builder = Redlock::builder().url(proxy.url()).prefix(prefix.clone());
        clients.push(builder.reply_timeout(NOISE).build().await.unwrap());
        proxy.delay_requests(ROUND_TRIP / 2);
        proxy.delay_replies(ROUND_TRIP / 2);
    }
    let mut gaps = Gaps::default();
    let (mut leads, mut is_elected, mut ends) = leads_until_told(&clients[0], "k");
    within(NOISE, is_elected.recv()).await.unwrap();
    for round in 1..=full(3, 20) {
        let (next, mut next_is, ends_next) = leads_until_told(&clients[round % 2], "k");
        eventually(NOISE, || async { !queue(&raw, &prefix).await.is_empty() }).await;
        // It knows that it is in the queue, and would look on its own after a second.
        time_passes(ROUND_TRIP).await;
        ends.send(()).await.unwrap();
        gaps.until(async { drop(within(NOISE, next_is.recv()).await.unwrap()) }).await;
        assert_eq!(within(NOISE, leads).await.unwrap(), Ok(()));
        (leads, ends) = (next, ends_next);
    }
    ends.send(()).await.unwrap();
    assert_eq!(within(NOISE, leads).await.unwrap(), Ok(()));
    nothing_left(&raw, &prefix, NOISE).await;
    // Half of one for the machine.
    gaps.tell("leaders resigned, round trips of 200 ms", ROUND_TRIP * 5 / 2);
    // A candidate that is not told looks after five round trips at the earliest.
    let median = gaps.median();
    assert!(median < 4 * ROUND_TRIP, "{median:?}: they were not told");
}

/// The keys of queues, in which candidates of other processes wait.
async fn queue(raw: &Raw, prefix: &str) -> Vec<String> {
    let mut keys = raw.keys(&format!("*{prefix}*")).await;
    keys.retain(|key| key.ends_with(":queue"));
    keys
}
