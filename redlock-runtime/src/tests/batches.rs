//! Batches of commands on a model of a server: each command has the answer and the effect that it
//! would have had by itself, behind the releases and the acquires before it.

use std::time::Duration;

use fastrand::Rng;
use redis_model::{Content, Script, Server};

use crate::backend::simulated::{self, SimulatedCall, SimulatedReply};
use crate::backend::{Acquired, Claim, Found, Release};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

const LIVES: u64 = 60;
const STEPS: usize = 60;
/// In microseconds.
const HOUR: i64 = 3_600_000_000;

/// Two servers that are asked the same: one in batches, the other one by one.
struct Pair {
    batched: Server,
    single: Server,
    random: Rng,
    now: u64,
    keys: Vec<LockKey>,
    owners: Vec<Owner>,
    /// How many commands were answered in a batch, and by themselves.
    counts: [usize; 2],
}

impl Pair {
    fn new(seed: u64) -> Self {
        let server = || Server::new(simulated::scripts().map(Script::new));
        let mut random = Rng::with_seed(seed);
        // The first two share a mark.
        let names = ["{a}1", "{a}2", "b", "c", "d", "e"];
        let keys = names.map(|name| LockKey::new("lock:", name).unwrap()).to_vec();
        let owners = (0..4).map(|_| Owner::of_nobody("test")).collect();
        let now = 1_795_000_000_000_000 + random.u64(..1_000_000);
        let mut pair =
            Self { batched: server(), single: server(), random, now, keys, owners, counts: [0; 2] };
        pair.pass(0);
        pair
    }

    /// The clock may go backwards.
    fn pass(&mut self, micros: i64) {
        self.now = self.now.saturating_add_signed(micros);
        for server in [&mut self.batched, &mut self.single] {
            server.set_clock(self.now, self.now / 1000);
        }
    }

    fn claim(&mut self) -> Claim {
        let key = self.random.choice(&self.keys).unwrap().clone();
        let owner = self.random.choice(&self.owners).unwrap().clone();
        let expire = Duration::from_millis(self.random.u64(10..3_000));
        Claim { key, owner, expire, kind: Kind::Exclusive }
    }

    fn claims(&mut self, most: usize) -> Vec<Claim> {
        (0..self.random.usize(..=most)).map(|_| self.claim()).collect()
    }

    fn ask_both<T: 'static>(&mut self, call: &SimulatedCall<T>) {
        let _ = ask(&mut self.batched, call);
        let _ = ask(&mut self.single, call);
    }

    fn step(&mut self) {
        match self.random.u8(..10) {
            0 => {
                let is_long = self.random.u8(..4) == 0;
                let micros = if is_long { 0..2 * HOUR } else { -2_000_000..2_000_000 };
                let micros = self.random.i64(micros);
                self.pass(micros);
            }
            1 => {
                let (claim, reserve) = (self.claim(), self.random.u32(1..9));
                self.ask_both(&simulated::enqueue(&claim, reserve, Some("channel")));
            }
            2 => {
                let claim = self.claim();
                self.ask_both(&simulated::acquire(&claim));
            }
            _ => self.ask_batch(),
        }
    }

    fn ask_batch(&mut self) {
        let (held, wanted) = (self.claims(4), self.claims(5));
        let release = |claim| simulated::release(Release::of(claim), true);
        let releases: Vec<_> = held.iter().map(release).collect();
        let acquires: Vec<_> = wanted.iter().map(simulated::acquire).collect();

        let (first, then) = simulated::ask_batch(&mut self.batched, &releases, &acquires);
        let are_plain = first.iter().map(Option::is_some).chain(then.iter().map(Option::is_some));
        are_plain.for_each(|is_plain| self.counts[usize::from(!is_plain)] += 1);
        for (release, answer) in releases.iter().zip(&first) {
            assert!(answer.is_none() || *answer == Some(ask(&mut self.single, release)));
        }
        for (acquire, answer) in acquires.iter().zip(&then) {
            assert!(answer.is_none() || *answer == Some(ask(&mut self.single, acquire)));
        }
        // What the batch has left out comes behind it.
        for (release, _) in releases.iter().zip(&first).filter(|(_, answer)| answer.is_none()) {
            assert_eq!(ask(&mut self.batched, release), ask(&mut self.single, release));
        }
        for (acquire, _) in acquires.iter().zip(&then).filter(|(_, answer)| answer.is_none()) {
            assert_eq!(ask(&mut self.batched, acquire), ask(&mut self.single, acquire));
        }
    }

    /// Every key with its value and its end. A mark has to live for 47 hours after its token,
    /// as no hour ends in the microseconds of a draw here: a batch does not renew its expiry each
    /// time.
    fn keys_of(server: &Server) -> Vec<(Vec<u8>, Option<Content>, Option<u64>)> {
        let keys = server.keyspace();
        let described = |key: &[u8]| {
            let (content, mut ends) = (keys.get(key).cloned(), keys.ends(key));
            if let Some(Content::Text(text)) = &content
                && key.ends_with(b":mark:fence")
            {
                let last: i64 = std::str::from_utf8(text).unwrap().parse().unwrap();
                let earliest_end = u64::try_from((last + 47 * HOUR) / 1000).unwrap();
                let is_long = ends.is_some_and(|ends| ends >= earliest_end);
                assert!(is_long, "{ends:?} of a mark of {last}");
                ends = None;
            }
            (key.to_vec(), content, ends)
        };
        keys.keys().map(described).collect()
    }
}

fn ask<T: 'static>(server: &mut Server, call: &SimulatedCall<T>) -> T {
    match call.ask(server, true) {
        SimulatedReply::Answer(answer) => answer,
        SimulatedReply::Error(error) => panic!("{error}"),
        SimulatedReply::NoScript | SimulatedReply::Nonsense(_) => panic!("no answer"),
    }
}

#[test]
fn commands_in_a_batch_are_answered_as_one_by_one() {
    let mut counts = [0; 2];
    for seed in 0..LIVES {
        let mut pair = Pair::new(seed);
        for step in 0..STEPS {
            pair.step();
            let [batched, single] = [&pair.batched, &pair.single].map(Pair::keys_of);
            assert_eq!(batched, single, "seed {seed}, step {step}");
        }
        counts = [counts[0] + pair.counts[0], counts[1] + pair.counts[1]];
    }
    let [in_batch, alone] = counts;
    assert!(in_batch > 3_000 && alone > 3_000, "{counts:?}");
}

/// Keys of another type stay what they are, and spoil nothing for the others of the batch.
#[test]
fn foreign_keys_in_a_batch_harm_nobody() {
    let mut pair = Pair::new(0);
    let owner = pair.owners[0].clone();
    let claim = |key: &LockKey| Claim {
        key: key.clone(),
        owner: owner.clone(),
        expire: Duration::from_secs(9),
        kind: Kind::Exclusive,
    };
    let [bad_mark, bad_lock, bad_queue, good, free] =
        [&pair.keys[0], &pair.keys[2], &pair.keys[3], &pair.keys[4], &pair.keys[5]].map(claim);
    let server = &mut pair.batched;
    for claim in [&bad_queue, &good] {
        ask(server, &simulated::acquire(claim));
    }
    let mark = bad_mark.key.mark_key();
    for foreign in [mark.as_str(), bad_lock.key.redis_key(), &bad_queue.key.queue_key()] {
        server.execute(&[b"RPUSH", foreign.as_bytes(), b"v"]);
    }
    let releases = [&bad_queue, &good].map(|claim| simulated::release(Release::of(claim), true));
    let acquires = [&bad_mark, &bad_lock, &free].map(simulated::acquire);
    let (first, then) = simulated::ask_batch(server, &releases, &acquires);
    assert_eq!(first, [None, Some((Found::Ours, false))]);
    assert!(matches!(then[..], [None, None, Some(Acquired::Granted { .. })]), "{then:?}");
    for foreign in [mark.as_str(), bad_lock.key.redis_key(), &bad_queue.key.queue_key()] {
        let content = server.keyspace().get(foreign.as_bytes());
        assert!(matches!(content, Some(Content::List(_))), "{foreign}: {content:?}");
    }
}
