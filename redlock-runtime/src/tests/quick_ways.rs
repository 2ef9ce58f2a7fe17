//! The first parts of some scripts are for the usual case: they do what the parts behind them would
//! do. On two models of a server, of which one runs the scripts without their first parts.

use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;
use redis_model::{Content, Keyspace, Reply, Script, Server};

use super::step::PRESENT;
use crate::backend::simulated::{self, SimulatedCall, SimulatedReply};
use crate::backend::{Claim, Release};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

const LIVES: u64 = 50;
const STEPS: usize = 100;
/// With this comment the first of the other parts begins.
const OTHERS: &str = "-- hand_over: ";
/// In microseconds.
const TICK: u64 = 103_000;
const LOCKS: [&str; 2] = ["lock:a", "lock:b"];
const HOUR: u64 = 3_600_000_000;

/// Each call is for a server with all parts, and for one without the first ones.
struct Pair {
    servers: [Server; 2],
    random: Rng,
    seed: u64,
    /// In microseconds. It advances by multiples of [`TICK`], which no lease is a multiple of:
    /// leases never end at the time of a command. By the clock of its key, a lock lasts until the
    /// end of that millisecond.
    now: u64,
    claims: Vec<Claim>,
}

impl Pair {
    fn new(scripts: &[Vec<Script>; 2], seed: u64) -> Self {
        let mut servers = scripts.each_ref().map(|scripts| Server::new(scripts.iter().cloned()));
        for server in &mut servers {
            server.set_listeners(PRESENT.as_bytes(), 1);
        }
        let now = 1_795_000_000_000_001;
        let mut pair =
            Self { servers, random: Rng::with_seed(seed), seed, now, claims: Vec::new() };
        pair.pass(0);
        pair
    }

    fn pass(&mut self, micros: u64) {
        self.now += micros;
        for server in &mut self.servers {
            server.set_clock(self.now, self.now / 1000);
        }
    }

    fn both<T: std::fmt::Debug + 'static>(&mut self, call: &SimulatedCall<T>) {
        let [one, other] = self.servers.each_mut().map(|server| match call.ask(server, false) {
            SimulatedReply::Answer(answer) => Some(format!("{answer:?}")),
            SimulatedReply::NoScript => panic!("a script is unknown"),
            SimulatedReply::Nonsense(value) => panic!("{value:?}"),
            // Which key of another type is read first does not matter.
            SimulatedReply::Error(_) => None,
        });
        assert_eq!(one, other, "seed {}", self.seed);
    }

    fn execute(&mut self, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        for server in &mut self.servers {
            assert!(!matches!(server.execute(&words), Reply::Error(_)), "{words:?}");
        }
    }

    fn claim(&mut self) -> Claim {
        let permits = Kind::Permits(NonZeroU32::new(2).unwrap());
        let kind = [Kind::Exclusive, Kind::Read, Kind::Read, permits][self.random.usize(..4)];
        let expire = Duration::from_millis([350, 1050, 9050][self.random.usize(..3)]);
        let name = LOCKS[self.random.usize(..2)].trim_start_matches("lock:");
        let key = LockKey::new("lock:", name).unwrap();
        Claim { key, owner: Owner::of_nobody("model"), expire, kind }
    }

    /// Any of those that have come, and perhaps gone.
    fn known(&mut self) -> Option<Claim> {
        let count = self.claims.len().max(1);
        self.claims.get(self.random.usize(..count)).cloned()
    }

    fn step(&mut self) {
        match self.random.u32(..12) {
            0..3 => {
                let claim = self.claim();
                self.both(&simulated::acquire(&claim));
                self.claims.push(claim);
            }
            3 => {
                let claim = self.claim();
                self.both(&simulated::enqueue(&claim, 3, Some(PRESENT)));
                self.claims.push(claim);
            }
            4..7 => {
                if let Some(claim) = self.known() {
                    let all = [Release::of(&claim), Release::leaving(&claim)];
                    let release = all[usize::from(self.random.u8(..4) == 0)];
                    let has_queue = self.random.u8(..4) > 0;
                    self.both(&simulated::release(release, has_queue));
                }
            }
            7 => {
                if let Some(claim) = self.known() {
                    self.both(&simulated::renew(std::slice::from_ref(&claim)));
                    self.both(&simulated::acquire(&claim));
                }
            }
            8 => self.release_several(),
            9 => self.meddle(),
            _ => {
                let ticks = self.random.u64(1..=5);
                self.pass(TICK * ticks);
            }
        }
    }

    fn release_several(&mut self) {
        let known = |claim: &&Claim| claim.kind == Kind::Exclusive;
        let claims: Vec<Claim> = self.claims.iter().filter(known).cloned().collect();
        let several: Vec<Release<'_>> = claims.iter().rev().take(3).map(Release::of).collect();
        if !several.is_empty() {
            self.both(&simulated::release_all(&several));
        }
    }

    /// Somebody else writes to the keys.
    fn meddle(&mut self) {
        let lock = LOCKS[self.random.usize(..2)];
        let key = LockKey::new("lock:", lock.trim_start_matches("lock:")).unwrap();
        let (mark, counter) = (key.mark_key(), key.counter_key());
        let offset = self.random.u64(..2 * HOUR);
        let number = (self.now - HOUR + offset).to_string();
        match self.random.u32(..5) {
            0 => self.execute(&["DEL", lock]),
            // Behind the mark, a counter counts for the other parts only.
            1 => {
                self.execute(&["DEL", &counter]);
                self.execute(&["SET", &mark, &number, "PX", "9000000000"]);
            }
            2 | 3 => {
                self.execute(&["DEL", &mark]);
                self.execute(&["SET", &counter, &number, "PX", "9000000000"]);
            }
            _ => {
                self.execute(&["DEL", &mark]);
                self.execute(&["RPUSH", &mark, "foreign"]);
                let claim = self.claim();
                self.both(&simulated::acquire(&claim));
                self.execute(&["DEL", &mark]);
            }
        }
    }

    /// The keys are the same, but for leases that have ended, and their keys.
    fn compare(&self) {
        let [one, other] = self.servers.each_ref().map(|server| self.shown(server.keyspace()));
        assert_eq!(one, other, "seed {} {}", self.seed, self.now);
    }

    fn shown(&self, keys: &Keyspace) -> Vec<String> {
        let show = |key: &[u8]| {
            let ends = keys.ends(key);
            let name = String::from_utf8_lossy(key).into_owned();
            match keys.get(key).unwrap() {
                Content::Sorted(holders) => {
                    let goes_on = |end: i64| u64::try_from(end).unwrap() > self.now;
                    let mut leases = holders.in_order();
                    leases.retain(|(_, end)| goes_on(*end));
                    (!leases.is_empty()).then(|| format!("{name} {leases:?} {ends:?}"))
                }
                Content::Text(text) => {
                    Some(format!("{name} {} {ends:?}", String::from_utf8_lossy(text)))
                }
                Content::List(list) => Some(format!("{name} {list:?} {ends:?}")),
            }
        };
        keys.keys().filter_map(show).collect()
    }
}

#[test]
fn the_quick_ways_lead_to_the_same_place() {
    let with_first_parts = simulated::scripts().filter(|text| text.find(OTHERS) > Some(0));
    assert_eq!(with_first_parts.count(), 4, "acquire of shared kinds, and three releases");
    let whole = simulated::scripts().map(Script::new).collect();
    let cut = simulated::scripts().map(|text| {
        let others = text.find(OTHERS).map_or(text, |start| &text[start..]);
        Script::new(text).running(others)
    });
    let scripts = [whole, cut.collect()];
    for seed in 0..LIVES {
        let mut pair = Pair::new(&scripts, seed);
        for _ in 0..STEPS {
            pair.step();
            pair.compare();
        }
    }
}
