//! One simulated server: what the scripts in `backend/scripts` do to its keys, on its own clock.

use std::time::Duration;

use super::plan::{NodePlan, Tick, Upheaval};
use crate::backend::{Acquired, Claim, Found};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::owner::Owner;

/// What a client asks of a node.
#[derive(Debug, Clone)]
pub(super) enum Command {
    Acquire(Claim),
    Raise(Claim, FencingToken),
    Renew(Vec<Claim>),
    Release(Claim),
    /// Reads the roll; where there is none, leaves this one.
    Roll(Option<String>),
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Acquired(Acquired),
    Found(Found),
    Renewed(Vec<Option<Found>>),
    Roll(Option<String>),
}

/// Microseconds of real time since the history began.
pub(super) type Micros = u64;

#[derive(Debug)]
pub(super) struct Node {
    rate: i64,
    origin: u64,
    first_token: u64,
    records: Vec<Record>,
    copy: Vec<Record>,
    roll: Option<String>,
    /// How often it has lost its data.
    pub(super) losses: usize,
}

/// One key, and its fencing counter.
#[derive(Debug, Clone)]
struct Record {
    key: LockKey,
    lease: Option<Lease>,
    last_token: u64,
}

#[derive(Debug, Clone)]
struct Lease {
    owner: Owner,
    ends: Micros,
}

impl Node {
    pub(super) fn new(plan: &NodePlan) -> Self {
        let (rate, origin, first_token) = (plan.rate, plan.origin, plan.last_token);
        let (records, copy) = (Vec::new(), Vec::new());
        Self { rate, origin, first_token, records, copy, roll: None, losses: 0 }
    }

    pub(super) fn execute(&mut self, command: &Command, at: Tick) -> Answer {
        let now = at * 1000;
        match command {
            Command::Acquire(claim) => Answer::Acquired(self.acquire(claim, now)),
            Command::Raise(claim, fencing_token) => {
                Answer::Found(self.ours(claim, now, |record, _| {
                    record.last_token = record.last_token.max((*fencing_token).into());
                }))
            }
            Command::Renew(claims) => {
                let renew = |claim| Some(self.ours(claim, now, Record::begin));
                Answer::Renewed(claims.iter().map(renew).collect())
            }
            Command::Release(claim) => {
                Answer::Found(self.ours(claim, now, |record, _| record.lease = None))
            }
            Command::Roll(offer) => {
                self.roll = self.roll.take().or_else(|| offer.clone());
                Answer::Roll(self.roll.clone())
            }
        }
    }

    pub(super) fn upset(&mut self, upheaval: Upheaval) {
        match upheaval {
            Upheaval::Forget => {
                self.records.clear();
                self.roll = None;
                self.losses += 1;
            }
            Upheaval::Copy => self.copy.clone_from(&self.records),
            Upheaval::FailOver => self.records.clone_from(&self.copy),
        }
        self.first_token = 0;
    }

    /// Until when a key is this owner's, unless it lets go.
    pub(super) fn held_until(&self, key: &LockKey, owner: &Owner) -> Option<Micros> {
        let record = self.records.iter().find(|record| record.key == *key)?;
        record.lease.as_ref().filter(|lease| lease.owner == *owner).map(|lease| lease.ends)
    }

    /// The owners of all leases that run at `at`.
    pub(super) fn owners(&self, at: Tick) -> impl Iterator<Item = &Owner> {
        let leases = self.records.iter().filter_map(|record| record.lease.as_ref());
        leases.filter(move |lease| at * 1000 < lease.ends).map(|lease| &lease.owner)
    }

    fn acquire(&mut self, claim: &Claim, now: Micros) -> Acquired {
        let (server_time, lasts) = (self.server_time(now), self.real(claim.expire));
        let record = self.record(&claim.key);
        match record.live(now) {
            Some(lease) if lease.owner != claim.owner => {
                let (holder, left) = (lease.owner.as_str().to_owned(), lease.ends - now);
                let free_in = Some(Duration::from_micros(left));
                return Acquired::Refused { holder, free_in, was_cut: false, is_split: false };
            }
            Some(_) => {}
            None => record.last_token = server_time.max(record.last_token + 1),
        }
        record.begin_for(&claim.owner, now + lasts);
        let Some(fencing_token) = FencingToken::new(record.last_token) else {
            unreachable!("the clock shows the year 2255")
        };
        Acquired::Granted { fencing_token }
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

    fn record(&mut self, key: &LockKey) -> &mut Record {
        let known = self.records.iter().position(|record| record.key == *key);
        let at = known.unwrap_or_else(|| {
            let last_token = self.first_token;
            self.records.push(Record { key: key.clone(), lease: None, last_token });
            self.records.len() - 1
        });
        &mut self.records[at]
    }

    /// What `TIME` returns, in microseconds; zero on a node whose tokens come from its counter.
    fn server_time(&self, now: Micros) -> u64 {
        if self.origin == 0 { 0 } else { self.origin + now }
    }

    /// How long a lease lasts that this node's clock measures.
    fn real(&self, expire: Duration) -> Micros {
        let micros = u64::try_from(expire.as_micros()).unwrap_or(u64::MAX);
        micros * 1_000_000 / 1_000_000_u64.saturating_add_signed(self.rate)
    }
}

impl Record {
    fn live(&self, now: Micros) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| now < lease.ends)
    }

    fn begin(&mut self, (owner, ends): (&Owner, Micros)) {
        self.begin_for(owner, ends);
    }

    fn begin_for(&mut self, owner: &Owner, ends: Micros) {
        self.lease = Some(Lease { owner: owner.clone(), ends });
    }
}
