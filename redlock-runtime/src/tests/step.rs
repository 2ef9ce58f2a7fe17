//! Commands one after another, on a model of a server that runs the shipped scripts.

use std::num::NonZeroU32;
use std::time::Duration;

use redis_model::{Reply, Script, Server};

use super::fake::MINUTE;
use crate::backend::simulated::{self, SimulatedCall, SimulatedReply};
use crate::backend::{Acquired, Claim, Enqueued, Look, Release};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::{ClientId, Owner};

/// A process that listens.
pub(super) const PRESENT: &str = "redlock:present";
pub(super) const DYING: &str = "redlock:dying";
pub(super) const ABSENT: &str = "redlock:absent";
pub(super) const MAILBOX: &str = "@redlock:mailbox";

pub(super) const WRITE: Kind = Kind::Exclusive;
pub(super) const READ: Kind = Kind::Read;

/// The keys of the lock of [`claim`].
pub(super) const LOCK: &[u8] = b"lock:k";
pub(super) const HOLDERS: &[u8] = b"{lock:k}:holders";
pub(super) const QUEUE: &[u8] = b"{lock:k}:queue";

pub(super) struct Step {
    pub(super) server: Server,
    /// The server's time, in microseconds.
    pub(super) now: u64,
}

impl Step {
    pub(super) fn new() -> Self {
        let mut server = Server::new(simulated::scripts().map(Script::new));
        server.set_listeners(PRESENT.as_bytes(), 1);
        let mut step = Self { server, now: 1_795_000_000_000_000 };
        step.pass(Duration::ZERO);
        step
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += u64::try_from(time.as_micros()).unwrap();
        self.server.set_clock(self.now, self.now / 1000);
    }

    pub(super) fn sets_back(&mut self, time: Duration) {
        self.now -= u64::try_from(time.as_micros()).unwrap();
        self.pass(Duration::ZERO);
    }

    pub(super) fn ask<T: 'static>(&mut self, call: &SimulatedCall<T>) -> T {
        match call.ask(&mut self.server, false) {
            SimulatedReply::Answer(answer) => answer,
            SimulatedReply::NoScript => panic!("a script is unknown"),
            SimulatedReply::Error(error) => panic!("{error}"),
            SimulatedReply::Nonsense(value) => panic!("{value:?}"),
        }
    }

    pub(super) fn enters(&mut self, claim: &Claim) -> bool {
        let answer = self.ask(&simulated::acquire(claim));
        matches!(answer, Acquired::Granted { .. })
    }

    pub(super) fn leaves(&mut self, claim: &Claim) {
        self.ask(&simulated::release(Release::of(claim), true));
    }

    pub(super) fn enqueues(&mut self, claim: &Claim, channel: &str) {
        let answer = self.ask(&simulated::enqueue(claim, 1, Some(channel)));
        assert!(matches!(answer, Enqueued::Waiting { .. }), "{answer:?}");
    }

    /// An owner of the queue asks by itself.
    pub(super) fn looks(&mut self, claim: &Claim) -> bool {
        let answer = self.ask(&simulated::look(claim, 1, Look::by_clock(3)));
        matches!(answer, Enqueued::Granted { .. })
    }

    /// Does the process behind [`DYING`] live?
    pub(super) fn listens(&mut self, is_alive: bool) {
        self.server.set_listeners(DYING.as_bytes(), i64::from(is_alive));
    }

    /// The messages since the last call, without the questions whether somebody is there.
    pub(super) fn told(&mut self) -> Vec<String> {
        let published = self.server.take_published();
        let heard = published.into_iter().filter(|(channel, _)| channel == PRESENT.as_bytes());
        let heard = heard.map(|(_, message)| String::from_utf8(message).unwrap());
        heard.filter(|message| !message.starts_with("ping ")).collect()
    }
}

pub(super) fn claim(kind: Kind, expire: Duration) -> Claim {
    let (key, owner) = (LockKey::new("lock:", "k").unwrap(), Owner::of_nobody("model"));
    Claim { key, owner, expire, kind }
}

pub(super) fn permit_of(client: &ClientId, permits: u32) -> Claim {
    let kind = Kind::Permits(NonZeroU32::new(permits).unwrap());
    Claim { owner: Owner::fresh(client), ..claim(kind, MINUTE) }
}

pub(super) fn permit(permits: u32) -> Claim {
    permit_of(&ClientId::new("model"), permits)
}

pub(super) fn writer() -> Claim {
    claim(WRITE, MINUTE)
}

pub(super) fn reader() -> Claim {
    claim(READ, MINUTE)
}

pub(super) fn is_there(step: &Step, key: &[u8]) -> bool {
    step.server.keyspace().get(key).is_some()
}

/// Another program deletes the lock.
pub(super) fn delete(step: &mut Step) {
    assert_eq!(step.server.execute(&[b"DEL", LOCK]), Reply::Int(1));
}
