//! Long random lives of one lock on a model of a server that runs the shipped scripts: clients of
//! all kinds come, wait, renew, leave and die, and what they believe to hold never contradicts
//! itself.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;
use redis_model::{Reply, Script, Server};

use crate::backend::simulated::{self, SimulatedCall, SimulatedReply};
use crate::backend::{
    Acquired, Claim, Downgraded, Enqueued, FencingTokens, Found, Look, QueueSignal, Release,
};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

const PERMITS: NonZeroU32 = NonZeroU32::new(2).unwrap();
const CLIENTS: usize = 5;
const STEPS: usize = 250;
const LIVES: u64 = 60;

/// A client as the server knows it: its channel, and what it holds and waits for.
struct World {
    server: Server,
    random: Rng,
    seed: u64,
    /// A client library sends some commands again by itself.
    sends_again: bool,
    /// The server's time, in microseconds.
    now: u64,
    is_alive: [bool; CLIENTS],
    held: Vec<Held>,
    waiting: Vec<(usize, Claim)>,
    /// What the last call granted, by its reply and by messages.
    granted: Vec<(FencingTokens, Held)>,
    last_token: Option<FencingToken>,
    seen: HashMap<&'static str, u32>,
}

struct Held {
    client: usize,
    claim: Claim,
    until: u64,
}

impl World {
    fn new(seed: u64, sends_again: bool) -> Self {
        let server = Server::new(simulated::scripts().map(Script::new));
        let mut world = Self {
            server,
            random: Rng::with_seed(seed),
            seed,
            sends_again,
            now: 1_795_000_000_000_000,
            is_alive: [true; CLIENTS],
            held: Vec::new(),
            waiting: Vec::new(),
            granted: Vec::new(),
            last_token: None,
            seen: HashMap::new(),
        };
        for client in 0..CLIENTS {
            world.server.set_listeners(channel(client).as_bytes(), 1);
        }
        world.pass(Duration::ZERO);
        world
    }

    fn pass(&mut self, time: Duration) {
        self.now += u64::try_from(time.as_micros()).unwrap();
        self.server.set_clock(self.now, self.now / 1000);
        let now = self.now;
        self.held.retain(|held| now < held.until);
    }

    fn ask<T: 'static>(&mut self, call: &SimulatedCall<T>) -> T {
        match call.ask(&mut self.server, false) {
            SimulatedReply::Answer(answer) => answer,
            SimulatedReply::NoScript => panic!("seed {}: a script is unknown", self.seed),
            SimulatedReply::Error(error) => panic!("seed {}: {error}", self.seed),
            SimulatedReply::Nonsense(value) => panic!("seed {}: {value:?}", self.seed),
        }
    }

    fn claim(&mut self) -> Claim {
        let kinds = [Kind::Exclusive, Kind::Read, Kind::Read, Kind::Permits(PERMITS)];
        let kind = kinds[self.random.usize(..kinds.len())];
        let expire = Duration::from_millis([300, 1000, 5000][self.random.usize(..3)]);
        let key = LockKey::new("lock:", "k").unwrap();
        Claim { key, owner: Owner::of_nobody("model"), expire, kind }
    }

    /// A client believes from now on that it holds the lock.
    fn holds(&mut self, client: usize, claim: Claim, lease: Duration, tokens: FencingTokens) {
        let until = self.now + u64::try_from(lease.as_micros()).unwrap();
        self.granted.push((tokens, Held { client, claim, until }));
    }

    /// Takes in what the last call granted, and checks that nobody contradicts anybody.
    fn settle(&mut self) {
        self.hear();
        let mut granted = std::mem::take(&mut self.granted);
        granted.sort_by_key(|(tokens, _)| tokens.first);
        for (tokens, held) in granted {
            let is_larger = self.last_token.is_none_or(|last| last < tokens.first);
            assert!(is_larger, "seed {}: {tokens:?} after {:?}", self.seed, self.last_token);
            // It may use all of them.
            self.last_token = Some(tokens.last);
            *self.seen.entry(name(held.claim.kind)).or_default() += 1;
            self.held.push(held);
        }
        self.check();
        self.check_nobody_waits_in_vain();
    }

    /// Every message reaches the client that it is for, if that is alive.
    fn hear(&mut self) {
        for (heard_on, message) in self.server.take_published() {
            for (owner, signal) in simulated::signalled(&message).into_iter().flatten() {
                let Some(QueueSignal::HandedOver { fencing_tokens, lease }) = signal else {
                    continue;
                };
                let is_meant = |(client, claim): &(usize, Claim)| {
                    claim.owner.as_str() == owner && channel(*client).as_bytes() == heard_on
                };
                let Some(at) = self.waiting.iter().position(is_meant) else { continue };
                let (client, claim) = self.waiting.remove(at);
                self.holds(client, claim, lease, fencing_tokens);
            }
        }
    }

    fn check(&self) {
        let count = |is_it: fn(Kind) -> bool| {
            self.held.iter().filter(|held| is_it(held.claim.kind)).count()
        };
        let writers = count(|kind| kind == Kind::Exclusive);
        let readers = count(|kind| kind == Kind::Read);
        let permits = count(|kind| matches!(kind, Kind::Permits(_)));
        let kinds = [writers, readers, permits].iter().filter(|count| **count > 0).count();
        let is_right = kinds <= 1 && writers <= 1 && permits <= PERMITS.get() as usize;
        let shown = format!("{writers} writers, {readers} readers, {permits} permits");
        assert!(is_right, "seed {}: {shown}", self.seed);
        // The key of a group lasts as long as each of its leases.
        let ends = self.server.keyspace().ends(b"lock:k");
        let lasts = |held: &Held| ends.is_none_or(|ends| held.until / 1000 <= ends);
        assert!(self.held.iter().all(lasts), "seed {}: the key ends at {ends:?}", self.seed);
    }

    fn step(&mut self) {
        match self.random.u8(..27) {
            0..4 => self.acquire(),
            4..10 => self.enqueue(),
            10..15 => self.release(),
            15..17 => self.renew(),
            17..20 => self.look(),
            20 => self.downgrade(),
            21 => self.die(),
            22 => self.give_up(),
            23 => self.persist(),
            _ => {
                let time = [1, 40, 400, 1500][self.random.usize(..4)];
                self.pass(Duration::from_millis(time));
            }
        }
        self.settle();
        // Often so short that reserved fencing tokens are ahead of the clock.
        let longest = [2, 900][self.random.usize(..2)];
        let a_while = Duration::from_micros(self.random.u64(1..longest));
        self.pass(a_while);
    }

    fn client(&mut self) -> usize {
        self.random.usize(..CLIENTS)
    }

    fn acquire(&mut self) {
        let (client, claim) = (self.client(), self.claim());
        if let Acquired::Granted { fencing_tokens, .. } = self.ask(&simulated::acquire(&claim)) {
            let lease = claim.expire;
            self.holds(client, claim, lease, fencing_tokens);
        }
    }

    fn enqueue(&mut self) {
        let (client, claim) = (self.client(), self.claim());
        let place = channel(client);
        let can_be_told = self.is_alive[client] && self.random.u8(..6) > 0;
        let told = can_be_told.then_some(place.as_str());
        if self.sends_again && self.random.bool() {
            self.ask(&simulated::enqueue(&claim, 1, told));
            *self.seen.entry("sent again").or_default() += 1;
        }
        match self.ask(&simulated::enqueue(&claim, 1, told)) {
            Enqueued::Granted(tokens) => {
                let lease = claim.expire;
                self.holds(client, claim, lease, tokens);
            }
            Enqueued::Waiting { .. } => self.waiting.push((client, claim)),
            Enqueued::Unknown => panic!("seed {}: just enqueued", self.seed),
        }
    }

    fn look(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.random.usize(..self.waiting.len());
        self.look_of(at);
    }

    fn look_of(&mut self, at: usize) {
        let (client, claim) = self.waiting[at].clone();
        // Whatever it believes of its place, it is found.
        let ahead = self.random.u32(..8);
        match self.ask(&simulated::look(&claim, 1, Look::by_clock(ahead))) {
            Enqueued::Granted(tokens) => {
                // Others may have been let in with it: they came after.
                self.waiting.remove(at);
                let lease = claim.expire;
                self.holds(client, claim, lease, tokens);
            }
            Enqueued::Waiting { .. } => {}
            Enqueued::Unknown => drop(self.waiting.remove(at)),
        }
    }

    fn release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.usize(..self.held.len());
        let held = self.held.remove(at);
        let release = Release { may_be_queued: self.random.bool(), ..Release::of(&held.claim) };
        let (found, _) = self.ask(&simulated::release(release, true));
        assert_eq!(found, Found::Ours, "seed {}: it held the lock", self.seed);
    }

    fn renew(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.usize(..self.held.len());
        let claim = self.held[at].claim.clone();
        let lease = u64::try_from(claim.expire.as_micros()).unwrap();
        let found = self.ask(&simulated::renew(&[claim]));
        assert_eq!(found, [Found::Ours], "seed {}: it held the lock", self.seed);
        self.held[at].until = self.now + lease;
    }

    fn downgrade(&mut self) {
        let writer = self.held.iter().position(|held| held.claim.kind == Kind::Exclusive);
        let Some(at) = writer else { return };
        let held = self.held.remove(at);
        let owner = Owner::of_nobody("model");
        let next = Claim { owner, kind: Kind::Read, ..held.claim.clone() };
        match self.ask(&simulated::downgrade(&held.claim, &next)) {
            Downgraded::Granted(fencing_token) => {
                let lease = next.expire;
                *self.seen.entry("downgrade").or_default() += 1;
                self.holds(held.client, next, lease, FencingTokens::one(fencing_token));
            }
            Downgraded::Lost(found) => panic!("seed {}: {found:?}", self.seed),
        }
    }

    /// A client does not want to wait any longer.
    fn give_up(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.random.usize(..self.waiting.len());
        let (_, claim) = self.waiting.remove(at);
        // One that cannot be told may have had the lock without knowing it.
        self.ask(&simulated::release(Release::leaving(&claim), true));
        *self.seen.entry("given up").or_default() += 1;
    }

    /// Another program takes the expiry of a group's key away, as `PERSIST` does.
    fn persist(&mut self) {
        let holder = self.server.execute(&[b"GET", b"lock:k"]);
        if let Reply::Bulk(marker) = holder
            && marker.starts_with(b"<")
        {
            self.server.execute(&[b"SET", b"lock:k", &marker]);
            *self.seen.entry("persisted").or_default() += 1;
        }
    }

    /// If nobody has given the key of a group its expiry again before the last lease ended,
    /// somebody has to delete it.
    fn delete_endless(&mut self) {
        if self.server.execute(&[b"PTTL", b"lock:k"]) == Reply::Int(-1) {
            self.server.execute(&[b"DEL", b"lock:k"]);
        }
    }

    /// Where readers hold the lock, no reader is the first in the queue.
    fn check_nobody_waits_in_vain(&mut self) {
        let first = self.server.execute(&[b"LINDEX", b"{lock:k}:queue", b"0"]);
        let holder = self.server.execute(&[b"GET", b"lock:k"]);
        if let (Reply::Bulk(first), Reply::Bulk(holder)) = (first, holder) {
            let first = String::from_utf8(first).unwrap();
            let is_reader = first.split(' ').nth(2) == Some("r");
            let is_in_vain = holder == b"<readers>" && is_reader;
            assert!(!is_in_vain, "seed {}: {first} waits behind readers", self.seed);
        }
    }

    /// A process is gone, and another one takes its place later.
    fn die(&mut self) {
        let client = self.client();
        self.is_alive[client] = !self.is_alive[client];
        let listeners = i64::from(self.is_alive[client]);
        self.server.set_listeners(channel(client).as_bytes(), listeners);
        self.held.retain(|held| held.client != client);
        self.waiting.retain(|(waiter, _)| *waiter != client);
    }

    /// Whoever waits is served in the end, once all that was held is given back or over.
    fn end(&mut self) {
        for _ in 0..10 * STEPS {
            if self.waiting.is_empty() {
                return;
            }
            while !self.held.is_empty() {
                self.release();
                self.settle();
            }
            self.delete_endless();
            self.pass(Duration::from_millis(700));
            for at in (0..self.waiting.len()).rev() {
                if at < self.waiting.len() {
                    self.look_of(at);
                }
                self.settle();
            }
        }
        panic!("seed {}: {} wait for ever", self.seed, self.waiting.len());
    }
}

fn channel(client: usize) -> String {
    format!("redlock:{client}")
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Exclusive => "writer",
        Kind::Read => "reader",
        Kind::Permits(_) => "permit",
    }
}

/// How often something happened in many lives.
fn lives(sends_again: bool) -> HashMap<&'static str, u32> {
    let mut seen: HashMap<&'static str, u32> = HashMap::new();
    for seed in 0..LIVES {
        let mut world = World::new(seed, sends_again);
        for _ in 0..STEPS {
            world.step();
        }
        world.end();
        for (name, count) in world.seen {
            *seen.entry(name).or_default() += count;
        }
    }
    seen
}

#[test]
fn clients_of_all_kinds_never_contradict_each_other() {
    let seen = lives(false);
    for name in ["writer", "reader", "permit", "downgrade", "given up", "persisted"] {
        assert!(seen.get(name).is_some_and(|count| *count > 20), "{name}: {seen:?}");
    }
}

#[test]
fn clients_whose_entries_stand_twice_in_the_queue_never_contradict_each_other() {
    let seen = lives(true);
    for name in ["writer", "reader", "permit", "sent again"] {
        assert!(seen.get(name).is_some_and(|count| *count > 20), "{name}: {seen:?}");
    }
}
