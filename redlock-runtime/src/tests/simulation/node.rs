//! One simulated server: the scripts that ship, on a model of Redis with a clock of its own.

use std::collections::HashMap;
use std::time::Duration;

use redis_model::{Content, Keyspace, Server};

use super::line::{Call, Entry, ReleaseHint, channel, process};
use super::node_plan::{NodePlan, Upheaval};
use super::plan::{KEYS, LinePlan, Tick};
use super::scripts::{By, scripts};
use crate::backend::simulated::{self, SimulatedCall, SimulatedReply};
use crate::backend::{
    Acquired, AllAcquired, CLAIM_WINDOW, Claim, Downgraded, Enqueued, Found, FoundersList,
    FoundersOffer, Look, Release, Rotated, TokensUsed,
};
use crate::error::NodeErrorKind;
use crate::fencing::FencingToken;
use crate::key::LockKey;

/// What a client asks of a node.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Acquire(Claim),
    AcquireAll(Vec<Claim>),
    Raise(Claim, FencingToken),
    Renew(Vec<Claim>),
    Release(Claim),
    ReleaseAll(Vec<Claim>),
    /// Reads the founders, after this offer was written.
    Founders(Option<FoundersOffer>),
    Join(Entry),
    /// With how many were ahead of it when it was seen last.
    Look(Entry, Look),
    Leave(Claim),
    GiveBack(Claim, TokensUsed),
    /// Lets go of a lock that stays taken for so long.
    Retain(Claim, Duration),
    Rotate {
        held: Claim,
        drawn: TokensUsed,
        next: Entry,
    },
    Nudge(Claim),
    /// The holder `held` becomes the reader `next`.
    Downgrade {
        held: Claim,
        next: Claim,
    },
    /// Tells the text of the script that follows another command, and does nothing else.
    Introduce(Box<Command>),
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Acquired(Acquired),
    AllAcquired(AllAcquired),
    Found(Found),
    Renewed(Vec<Option<Found>>),
    Founders(FoundersList),
    /// The flag: it was handed over, or stays taken while somebody waits.
    Freed(Found, bool),
    AllFreed(Vec<(Found, bool)>),
    Enqueued(Enqueued),
    Rotated(Rotated),
    Nudged {
        left: Option<Duration>,
        waiting: u64,
    },
    Downgraded(Downgraded),
    /// This user may not use the queue.
    Denied,
    /// The script is unknown, and nothing was done.
    NoScript,
    Introduced,
    /// The script failed, or answered what its client does not understand.
    Failed(String),
}

impl Answer {
    pub(crate) fn freed(self) -> Option<Found> {
        if let Self::Freed(found, _) = self { Some(found) } else { None }
    }

    pub(crate) fn enqueued(self) -> Option<Enqueued> {
        if let Self::Enqueued(enqueued) = self { Some(enqueued) } else { None }
    }

    pub(crate) fn rotated(self) -> Option<Rotated> {
        if let Self::Rotated(rotated) = self { Some(rotated) } else { None }
    }

    pub(crate) fn found(self) -> Option<Found> {
        if let Self::Found(found) = self { Some(found) } else { None }
    }
}

/// Microseconds of real time since the history began.
pub(crate) type Micros = u64;

pub(super) const PPM: u64 = 1_000_000;
/// What the clock by which leases end shows when the history begins, in microseconds.
const STARTED: u64 = 1 << 40;
const FOUNDERS: &str = "founders";

#[derive(Debug)]
pub(crate) struct Node {
    rate: i64,
    pub(super) origin: u64,
    stands_still: bool,
    /// By how much its clock was set back, in microseconds of its clock.
    pub(super) set_back: u64,
    pub(super) server: Server,
    copy: Keyspace,
    /// `None`: nobody stands in a queue here.
    pub(crate) line: Option<LinePlan>,
    /// What was published and is not on its way yet.
    pub(crate) registry: Vec<ReleaseHint>,
    /// How often it has lost its data.
    losses: usize,
    /// Those of the processes, in their order.
    channels: Vec<String>,
    /// The processes and claims of all owners that were ever in a queue.
    waiters: HashMap<String, (usize, Claim)>,
    /// The number of calls that were asked by digest or by text.
    asked: usize,
}

/// What a server tells of itself beside each answer. Since when it runs is not among it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Card {
    /// How often it has lost its data.
    pub(crate) losses: usize,
    /// What clients have left on it.
    pub(crate) founders: Option<String>,
}

impl Node {
    pub(crate) fn new(plan: &NodePlan, line: Option<LinePlan>) -> Self {
        let window = line.as_ref().map_or(CLAIM_WINDOW, |line| line.window);
        let mut server = Server::new(scripts(window));
        if plan.last_token > 0 {
            for key in lock_keys() {
                let last = plan.last_token.to_string();
                server.execute(&[b"SET", key.mark_key().as_bytes(), last.as_bytes()]);
            }
        }
        let processes = line.as_ref().map_or(0, |line| line.listeners.len());
        Self {
            rate: plan.rate,
            origin: plan.origin,
            stands_still: plan.stands_still,
            set_back: 0,
            server,
            copy: Keyspace::default(),
            line,
            registry: Vec::new(),
            losses: 0,
            asked: 0,
            channels: (0..processes).map(channel).collect(),
            waiters: HashMap::new(),
        }
    }

    /// Carries a command out, if the node knows its script or is told its text.
    pub(crate) fn execute(&mut self, command: &Command, by: By, at: Tick) -> Answer {
        self.pass(at);
        let answer = self.answer(command, by);
        for (channel, message) in self.server.take_published() {
            let (process, handed) = (process(&channel), simulated::signalled(&message));
            let (Some(process), Some(handed)) = (process, handed) else {
                return Answer::Failed(format!("published {message:?} to {channel:?}"));
            };
            let hint = |(owner, signal): (String, Option<_>)| {
                let ping = || Call::Ping(self.waiters[&owner].1.clone());
                let call = signal.map_or_else(ping, Call::Signal);
                ReleaseHint { process, owner, call }
            };
            self.registry.extend(handed.into_iter().map(hint));
        }
        answer
    }

    fn answer(&mut self, command: &Command, by: By) -> Answer {
        match command {
            Command::Acquire(claim) => self.ask(&simulated::acquire(claim), by, Answer::Acquired),
            Command::AcquireAll(claims) => {
                self.ask(&simulated::acquire_all(claims), by, Answer::AllAcquired)
            }
            Command::Raise(claim, to) => self.ask(&simulated::raise(claim, *to), by, Answer::Found),
            Command::Renew(claims) => self.ask(&simulated::renew(claims), by, |found| {
                Answer::Renewed(found.into_iter().map(Some).collect())
            }),
            Command::Release(claim) => self.free(Release::of(claim), by),
            Command::ReleaseAll(claims) => {
                let releases: Vec<_> = claims.iter().map(Release::of).collect();
                self.ask(&simulated::release_all(&releases), by, Answer::AllFreed)
            }
            Command::Leave(claim) => self.free(Release::leaving(claim), by),
            Command::GiveBack(claim, drawn) => {
                self.free(Release { give_back: Some(*drawn), ..Release::of(claim) }, by)
            }
            Command::Retain(claim, left) => {
                self.free(Release { retain: Some(*left), ..Release::of(claim) }, by)
            }
            Command::Founders(offer) => {
                match simulated::founders(&mut self.server, FOUNDERS, offer.as_ref()) {
                    Ok(list) => Answer::Founders(list),
                    Err(error) => Answer::Failed(error.to_string()),
                }
            }
            Command::Join(entry) => {
                self.meet(entry);
                let channel = entry.channel();
                let call = simulated::enqueue(&entry.claim, entry.reserve, channel.as_deref());
                self.ask(&call, by, Answer::Enqueued)
            }
            Command::Look(entry, look) => {
                let call = simulated::look(&entry.claim, entry.reserve, *look);
                self.ask(&call, by, Answer::Enqueued)
            }
            Command::Rotate { held, drawn, next } => {
                self.meet(next);
                let channel = next.channel();
                let call =
                    simulated::rotate(held, *drawn, &next.claim, next.reserve, channel.as_deref());
                self.ask(&call, by, Answer::Rotated)
            }
            Command::Nudge(claim) => self.ask(&simulated::nudge(claim), by, |(left, waiting)| {
                Answer::Nudged { left, waiting }
            }),
            Command::Downgrade { held, next } => {
                self.ask(&simulated::downgrade(held, next), by, Answer::Downgraded)
            }
            Command::Introduce(command) => {
                command.introduce(&mut self.server);
                Answer::Introduced
            }
        }
    }

    fn ask<T: 'static>(
        &mut self,
        call: &SimulatedCall<T>,
        by: By,
        answer: impl FnOnce(T) -> Answer,
    ) -> Answer {
        // Half of what can be part of a batch comes in one: the outcome is the same.
        self.asked += 1;
        let reply = if by == By::Digest && self.asked.is_multiple_of(2) {
            call.ask_in_batch(&mut self.server)
        } else {
            call.ask(&mut self.server, by == By::Text)
        };
        match reply {
            SimulatedReply::Answer(found) => answer(found),
            SimulatedReply::NoScript => Answer::NoScript,
            SimulatedReply::Error(error) if error.kind() == NodeErrorKind::NoPermission => {
                Answer::Denied
            }
            SimulatedReply::Error(error) => Answer::Failed(error.to_string()),
            SimulatedReply::Nonsense(value) => Answer::Failed(format!("{value:?}")),
        }
    }

    /// A client that may not touch the queue lets go of the lock alone.
    fn free(&mut self, what: Release<'_>, by: By) -> Answer {
        let freed = |(found, is_handed)| Answer::Freed(found, is_handed);
        match self.ask(&simulated::release(what, true), by, freed) {
            Answer::Denied => self.ask(&simulated::release(what, false), by, freed),
            answer => answer,
        }
    }

    pub(crate) fn upset(&mut self, upheaval: Upheaval, at: Tick) {
        if matches!(upheaval, Upheaval::Forget | Upheaval::FailOver | Upheaval::ForgetScripts) {
            self.server.forget_scripts();
        }
        match upheaval {
            Upheaval::Forget => {
                self.server.change(|keys| *keys = Keyspace::default());
                self.losses += 1;
            }
            Upheaval::LoseCounters => {
                let is_counter =
                    |key: &[u8]| key.ends_with(b":fence") && !key.ends_with(b":mark:fence");
                self.server.change(|keys| keys.remove_all(is_counter));
            }
            Upheaval::Copy => self.copy = self.server.keyspace().clone(),
            Upheaval::ForgetScripts => {}
            Upheaval::SetBack(by) => {
                self.set_back += by * 1000;
                self.pass(at);
            }
            Upheaval::FailOver => {
                let copy = self.copy.clone();
                self.server.change(|keys| *keys = copy);
            }
        }
    }

    /// A person deletes a lock.
    pub(crate) fn delete(&mut self, key: &LockKey) {
        self.server.change(|keys| _ = keys.remove(key.redis_key().as_bytes()));
    }

    /// Another program sets a lock, without an expiry.
    pub(crate) fn set_endless(&mut self, key: &LockKey, value: &str) {
        self.server.execute(&[b"SET", key.redis_key().as_bytes(), value.as_bytes()]);
    }

    /// A person deletes the queue of a lock.
    pub(crate) fn delete_queue(&mut self, key: &LockKey) {
        self.server.change(|keys| _ = keys.remove(key.queue_key().as_bytes()));
    }

    /// What it tells of itself.
    pub(crate) fn card(&self) -> Card {
        Card { losses: self.losses, founders: self.text(FOUNDERS) }
    }

    /// The owner that stood in a key at the last command, and when its lease ends.
    pub(crate) fn lease(&self, redis_key: &str) -> Option<(String, Micros)> {
        Some((self.text(redis_key)?, self.lease_ends(redis_key)?))
    }

    /// When the lease ends that stood in a key at the last command.
    pub(crate) fn lease_ends(&self, redis_key: &str) -> Option<Micros> {
        let keys = self.server.keyspace();
        keys.get(redis_key.as_bytes())?;
        let ends = keys.ends(redis_key.as_bytes());
        Some(ends.map_or(Micros::MAX, |ends| self.real(ends + 1)))
    }

    /// How many locks stand at `at`.
    pub(crate) fn locks(&self, at: Tick) -> usize {
        let ends = KEYS.iter().filter_map(|key| self.lease_ends(key));
        ends.filter(|ends| at * 1000 < *ends).count()
    }

    /// The processes of everybody in a queue.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        let keys = self.server.keyspace();
        let lines = keys.keys().filter(|key| key.ends_with(b":queue"));
        let entries = lines.filter_map(|line| match keys.get(line) {
            Some(Content::List(entries)) => Some(entries),
            _ => None,
        });
        entries.flatten().map(|entry| {
            let entry = String::from_utf8_lossy(entry);
            let owner = entry.splitn(5, ' ').last().unwrap_or_default();
            self.waiters[owner].0
        })
    }

    fn meet(&mut self, entry: &Entry) {
        let owner = entry.claim.owner.as_str().to_owned();
        self.waiters.insert(owner, (entry.process, entry.claim.clone()));
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.server.keyspace().get(key.as_bytes())? {
            Content::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Content::List(_) | Content::Sorted(_) => None,
        }
    }

    /// Sets the clock, and who listens.
    fn pass(&mut self, at: Tick) {
        let gone_by = at * 1000 * self.pace() / PPM;
        let shown_gone_by = if self.stands_still { 0 } else { gone_by };
        let shown = self.origin + shown_gone_by - self.set_back;
        self.server.set_clock(shown, (STARTED + gone_by - self.set_back) / 1000);
        let Some(line) = &self.line else { return };
        self.server.deny_keys((line.denied_from <= at).then_some(b":queue".as_slice()));
        for (process, channel) in self.channels.iter().enumerate() {
            let listens = line.has_listener(process, at);
            self.server.set_listeners(channel.as_bytes(), i64::from(listens));
        }
    }

    /// When the clock by which leases end shows so many milliseconds.
    fn real(&self, millis: u64) -> Micros {
        let gone_by = (millis * 1000 + self.set_back).saturating_sub(STARTED);
        gone_by.saturating_mul(PPM).div_ceil(self.pace())
    }

    /// How many microseconds of its clock are a second.
    pub(super) fn pace(&self) -> u64 {
        PPM.saturating_add_signed(self.rate)
    }
}

fn lock_keys() -> impl Iterator<Item = LockKey> {
    KEYS.iter().filter_map(|key| LockKey::new("", key).ok())
}
