//! Histories of several clients on nodes with seeded faults, in virtual time: at most one holder at
//! any time, and tokens that grow.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fake::{Fake, Fate};
use super::quorum::{nodes, on};
use crate::client::Redlock;
use crate::error::NodeErrorKind;
use crate::fencing::FencingToken;
use crate::guard::LockGuard;

/// How many histories; each has its own seed, which a failure names.
const HISTORIES: u64 = 60;
const CLIENTS: usize = 4;
const HOLDS: usize = 12;
const EXPIRE: Duration = Duration::from_millis(400);

/// Later than any clock: the tokens of a history come from the counters alone.
const BASE_TOKEN: u64 = 1 << 52;

/// What must hold of everybody together.
#[derive(Debug, Default)]
struct Witness {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    holder: Option<FencingToken>,
    last: Option<FencingToken>,
    holds: usize,
}

impl Witness {
    /// A holder takes a step. It is the only one, and newer than all before it.
    fn step(&self, fencing_token: FencingToken) {
        let mut inside = self.inside.lock().unwrap();
        if inside.holder != Some(fencing_token) {
            assert_eq!(inside.holder, None, "two holders at once");
            assert!(Some(fencing_token) > inside.last, "a fencing token that does not grow");
            inside.holder = Some(fencing_token);
            inside.last = Some(fencing_token);
            inside.holds += 1;
        }
    }

    fn leave(&self, fencing_token: FencingToken) {
        let mut inside = self.inside.lock().unwrap();
        if inside.holder == Some(fencing_token) {
            inside.holder = None;
        }
    }
}

/// Leaves when the guard's holder stops, in whatever way.
struct Visit<'a> {
    witness: &'a Witness,
    fencing_token: FencingToken,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.witness.leave(self.fencing_token);
    }
}

#[test]
fn many_histories_have_one_holder_at_a_time_and_growing_tokens() {
    let mut holds = 0;
    for seed in 0..HISTORIES {
        let played = std::panic::catch_unwind(|| play(seed));
        match played {
            Ok(count) => holds += count,
            Err(panic) => {
                eprintln!("the history of seed {seed} went wrong");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Faults must not have kept everybody out.
    let histories = usize::try_from(HISTORIES).unwrap();
    assert!(holds > histories * CLIENTS * HOLDS / 2, "only {holds} holds");
}

fn play(seed: u64) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let nodes = nodes(if seed.is_multiple_of(2) { 3 } else { 5 });
        let witness = Arc::new(Witness::default());
        let mut random = fastrand::Rng::with_seed(seed);
        for node in &nodes {
            node.jitter(random.fork());
            // Clocks that differ by up to a minute.
            node.store.set_last_token("k", BASE_TOKEN + random.u64(..60_000_000));
        }
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (redlock, witness) = (on(&nodes), Arc::clone(&witness));
                tokio::spawn(work(redlock, witness, random.fork()))
            })
            .collect();
        let chaos = tokio::spawn(chaos(nodes, random));
        for client in clients {
            client.await.unwrap();
        }
        chaos.abort();
        witness.inside.lock().unwrap().holds
    })
}

async fn work(redlock: Redlock, witness: Arc<Witness>, mut random: fastrand::Rng) {
    for _ in 0..HOLDS {
        let request = redlock.lock("k").expire(EXPIRE).wait(Duration::from_secs(5)).max_renew(3);
        let patience = Duration::from_millis(random.u64(1..4_000));
        // Some give up in the middle.
        let Ok(Ok(guard)) = tokio::time::timeout(patience, request.acquire()).await else {
            continue;
        };
        let body = Duration::from_millis(random.u64(..600));
        let _ = guard.protect(stay(&guard, &witness, body)).await;
        if random.bool() {
            let _ = guard.release().await;
        }
    }
}

async fn stay(guard: &LockGuard, witness: &Witness, body: Duration) {
    let fencing_token = guard.fencing_token();
    let _visit = Visit { witness, fencing_token };
    let end = tokio::time::Instant::now() + body;
    while tokio::time::Instant::now() < end {
        witness.step(fencing_token);
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}

/// Breaks a minority of the nodes at a time, and mends it again.
async fn chaos(nodes: Vec<Arc<Fake>>, mut random: fastrand::Rng) {
    loop {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        random.shuffle(&mut order);
        for node in &nodes {
            node.always(None);
        }
        for index in &order[..random.usize(..=nodes.len() / 2)] {
            nodes[*index].always(Some(fate(&mut random)));
        }
        // A reply lost anywhere, minority or not, is only a doubt.
        let unlucky = &nodes[random.usize(..nodes.len())];
        match random.u8(..6) {
            0 => unlucky.next_acquires([Fate::LostReply]),
            1 => unlucky.next_renews([Fate::LostReply]),
            2 => unlucky.next_releases([Fate::LostRequest]),
            3 => unlucky.next_raises([Fate::LostReply]),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.u64(20..500))).await;
    }
}

fn fate(random: &mut fastrand::Rng) -> Fate {
    match random.u8(..5) {
        0 => Fate::LostRequest,
        1 => Fate::LostReply,
        2 => Fate::Slow(Duration::from_millis(random.u64(1..30))),
        3 => Fate::Slow(Duration::from_millis(random.u64(30..300))),
        _ => Fate::Refused(NodeErrorKind::Unreachable, false),
    }
}
