//! One simulated server: what the scripts in `backend/scripts` do to its keys, on its own clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::line::{Entry, ReleaseHint};
use super::plan::{LinePlan, NodePlan, Tick, Upheaval};
use super::scripts::Script;
use crate::backend::{Acquired, Claim, Enqueued, Found, FoundersOffer, Rotated, TokensUsed};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::owner::Owner;

/// What a client asks of a node.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Acquire(Claim),
    Raise(Claim, FencingToken),
    Renew(Vec<Claim>),
    Release(Claim),
    /// Reads the roll, after this one was left.
    Roll(Option<FoundersOffer>),
    Join(Entry),
    Look(Entry),
    Leave(Claim),
    GiveBack(Claim, TokensUsed),
    Rotate {
        held: Claim,
        drawn: TokensUsed,
        next: Entry,
    },
    Nudge(LockKey),
    /// Tells the text of a script, and does nothing else.
    Introduce(Script),
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Acquired(Acquired),
    Found(Found),
    Renewed(Vec<Option<Found>>),
    Roll(Option<String>),
    /// The flag: it was handed over.
    Freed(Found, bool),
    Enqueued(Enqueued),
    Rotated(Rotated),
    Nudged {
        left: Option<Duration>,
        waiting: usize,
    },
    /// This user may not use the line.
    Denied,
    /// The script is unknown, and nothing was done.
    NoScript,
    Introduced,
}

/// Microseconds of real time since the history began.
pub(crate) type Micros = u64;

#[derive(Debug)]
pub(crate) struct Node {
    rate: i64,
    origin: u64,
    /// The highest fencing token of all keys. They are in one slot.
    pub(crate) mark: u64,
    pub(crate) records: Vec<Record>,
    copy: (u64, Vec<Record>),
    /// `None`: nobody stands in line here.
    pub(crate) line: Option<LinePlan>,
    /// What was published and is not on its way yet.
    pub(crate) registry: Vec<ReleaseHint>,
    /// What it tells of itself.
    pub(crate) card: Card,
    /// The scripts that it does not know, or not any more.
    pub(super) forgotten: Vec<Script>,
}

/// What a server tells of itself beside each answer. Since when it runs is not among it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Card {
    /// How often it has lost its data.
    pub(crate) losses: usize,
    /// What clients have left on it.
    pub(crate) roll: Option<String>,
}

/// One key, and its fencing counter.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) key: LockKey,
    pub(crate) lease: Option<Lease>,
    pub(crate) counter: Option<u64>,
    pub(crate) line: VecDeque<Entry>,
}

#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) owner: Owner,
    pub(crate) ends: Micros,
}

impl Node {
    pub(crate) fn new(plan: &NodePlan, line: Option<LinePlan>) -> Self {
        Self {
            rate: plan.rate,
            origin: plan.origin,
            mark: plan.last_token,
            records: Vec::new(),
            copy: Default::default(),
            line,
            registry: Vec::new(),
            card: Card::default(),
            forgotten: Vec::new(),
        }
    }

    pub(crate) fn execute(&mut self, command: &Command, at: Tick) -> Answer {
        let now = at * 1000;
        match command {
            Command::Acquire(claim) => Answer::Acquired(self.acquire(claim, now)),
            Command::Raise(claim, fencing_token) => {
                let found = self.ours(claim, now, |_, _| {});
                if found == Found::Ours {
                    self.mark = self.mark.max((*fencing_token).into());
                }
                Answer::Found(found)
            }
            Command::Renew(claims) => {
                let renew = |claim| Some(self.ours(claim, now, Record::begin));
                Answer::Renewed(claims.iter().map(renew).collect())
            }
            Command::Release(claim) => self.free(claim, None, now),
            Command::Roll(offer) => {
                if let Some(FoundersOffer { roll, replaces, .. }) = offer {
                    let kept = self.card.roll.take().filter(|_| !replaces);
                    self.card.roll = kept.or_else(|| Some(roll.clone()));
                }
                Answer::Roll(self.card.roll.clone())
            }
            Command::Join(entry) => self.join(entry, now),
            Command::Look(entry) => self.look(entry, now),
            Command::Leave(claim) => self.leave(claim, now),
            Command::GiveBack(claim, drawn) => self.free(claim, Some(*drawn), now),
            Command::Rotate { held, drawn, next } => self.rotate(held, *drawn, next, now),
            Command::Nudge(key) => self.nudge(key, now),
            Command::Introduce(_) => Answer::Introduced,
        }
    }

    pub(crate) fn upset(&mut self, upheaval: Upheaval) {
        if matches!(upheaval, Upheaval::Forget | Upheaval::FailOver | Upheaval::ForgetScripts) {
            self.forgotten = Script::ALL.to_vec();
        }
        match upheaval {
            Upheaval::Forget => {
                self.records.clear();
                self.card = Card { losses: self.card.losses + 1, roll: None };
                self.mark = 0;
            }
            Upheaval::LoseCounters => {
                self.records.iter_mut().for_each(|record| record.counter = None);
            }
            Upheaval::Copy => self.copy = (self.mark, self.records.clone()),
            Upheaval::ForgetScripts => {}
            Upheaval::FailOver => (self.mark, self.records) = self.copy.clone(),
        }
    }

    /// Until when a key is this owner's, unless it lets go.
    pub(crate) fn held_until(&self, key: &LockKey, owner: &Owner) -> Option<Micros> {
        let record = self.records.iter().find(|record| record.key == *key)?;
        record.lease.as_ref().filter(|lease| lease.owner == *owner).map(|lease| lease.ends)
    }

    /// The owners of all leases that run at `at`.
    pub(crate) fn owners(&self, at: Tick) -> impl Iterator<Item = &Owner> {
        let leases = self.records.iter().filter_map(|record| record.lease.as_ref());
        leases.filter(move |lease| at * 1000 < lease.ends).map(|lease| &lease.owner)
    }

    fn acquire(&mut self, claim: &Claim, now: Micros) -> Acquired {
        let (server_time, lasts) = (self.server_time(now), self.real(claim.expire));
        let mark = self.mark;
        let record = self.record(&claim.key);
        let reserved = match record.live(now) {
            Some(lease) if lease.owner != claim.owner => {
                let (holder, left) = (lease.owner.as_str().to_owned(), lease.ends - now);
                let free_in = Some(Duration::from_micros(left));
                return Acquired::Refused { holder, free_in, was_cut: false, is_split: false };
            }
            Some(_) => record.counter,
            None => None,
        };
        record.begin_for(&claim.owner, now + lasts);
        let last = reserved.unwrap_or_else(|| {
            let last = record.counter.take().unwrap_or_default().max(mark);
            server_time.max(last + 1)
        });
        self.mark = mark.max(last);
        let Some(fencing_token) = FencingToken::new(last) else {
            unreachable!("the clock shows the year 2255")
        };
        Acquired::Granted { fencing_token, was_cut: false }
    }

    /// Does something to a key that is still its owner's.
    fn ours(
        &mut self,
        claim: &Claim,
        now: Micros,
        act: impl FnOnce(&mut Record, (&Owner, Micros)),
    ) -> Found {
        let ends = now + self.real(claim.expire);
        let record = self.record(&claim.key);
        match record.live(now) {
            None => Found::Gone,
            Some(lease) if lease.owner != claim.owner => Found::Stolen,
            Some(_) => {
                act(record, (&claim.owner, ends));
                Found::Ours
            }
        }
    }

    pub(crate) fn record(&mut self, key: &LockKey) -> &mut Record {
        let known = self.records.iter().position(|record| record.key == *key);
        let at = known.unwrap_or_else(|| {
            let line = VecDeque::new();
            self.records.push(Record { key: key.clone(), lease: None, counter: None, line });
            self.records.len() - 1
        });
        &mut self.records[at]
    }

    /// What `TIME` returns, in microseconds; zero on a node whose tokens come from its counter.
    pub(crate) fn server_time(&self, now: Micros) -> u64 {
        if self.origin == 0 { 0 } else { self.origin + now }
    }

    /// How long a lease lasts that this node's clock measures.
    pub(crate) fn real(&self, expire: Duration) -> Micros {
        let micros = u64::try_from(expire.as_micros()).unwrap_or(u64::MAX);
        micros * 1_000_000 / 1_000_000_u64.saturating_add_signed(self.rate)
    }
}

impl Record {
    pub(crate) fn live(&self, now: Micros) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| now < lease.ends)
    }

    fn begin(&mut self, (owner, ends): (&Owner, Micros)) {
        self.begin_for(owner, ends);
    }

    pub(crate) fn begin_for(&mut self, owner: &Owner, ends: Micros) {
        self.lease = Some(Lease { owner: owner.clone(), ends });
    }
}
