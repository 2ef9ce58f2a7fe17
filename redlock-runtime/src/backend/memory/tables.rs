//! The records of the embedded backend: who holds each lock, and who waits to be notified.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::lease_clock::LeaseClock;
use crate::backend::{Claim, Found, OnRelease};
use crate::clock::Moment;
use crate::fencing::FencingToken;
use crate::kind::{Kind, shown_group};
use crate::owner::Owner;

/// Expired entries are swept each time the map has doubled since the last sweep.
pub(super) const FIRST_SWEEP: usize = 1024;

#[derive(Default)]
pub(super) struct Tables {
    pub(super) locks: HashMap<String, Record>,
    /// The waiters of a key that want to be notified of a release.
    pub(super) hints: HashMap<String, Vec<Hint>>,
    /// The last fencing token over all locks.
    pub(super) last_token: u64,
    next_sweep: usize,
}

/// A lock that is held.
pub(super) struct Record {
    pub(super) kind: Kind,
    /// One, unless the kind is a shared one.
    pub(super) holders: Vec<Holder>,
    /// The clock on which the leases are counted.
    clock: LeaseClock,
}

pub(super) struct Holder {
    pub(super) owner: String,
    pub(super) fencing_token: FencingToken,
    pub(super) ends: Moment,
}

pub(super) struct Hint {
    pub(super) owner: Owner,
    pub(super) kind: Kind,
    /// Until then the hint stays registered although it was used, and keeps out callers of other
    /// kinds that come later.
    pub(super) stays_until: Option<Moment>,
    pub(super) on_release: OnRelease,
}

impl Record {
    /// A lock with its first holder, whose lease is counted on the clock of this runtime.
    pub(super) fn of(kind: Kind, holder: Holder) -> Self {
        Self { kind, holders: vec![holder], clock: LeaseClock::here() }
    }

    /// Removes holders whose leases are over. `here`: the clock of the caller, which shows `now`.
    fn end_leases(&mut self, here: &LeaseClock, now: Moment) {
        let now = if self.clock == *here { now } else { self.clock.now() };
        self.holders.retain(|holder| now < holder.ends);
    }

    /// Is there room for one more holder of `kind`?
    pub(super) fn has_room(&self, kind: Kind) -> bool {
        match (self.kind, kind) {
            (Kind::Read, Kind::Read) => true,
            (Kind::Permits(_), Kind::Permits(most)) => self.holders.len() < most.get() as usize,
            _ => false,
        }
    }

    pub(super) fn of_owner(&mut self, claim: &Claim) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.owner == claim.owner.as_str())
    }

    /// Until when a caller of `kind` has to wait at least if nobody releases.
    pub(super) fn ends(&self, kind: Kind) -> Moment {
        let ends = self.holders.iter().map(|holder| holder.ends);
        let is_of_permits = matches!((self.kind, kind), (Kind::Permits(_), Kind::Permits(_)));
        let end = if is_of_permits { ends.min() } else { ends.max() };
        end.unwrap_or(Moment::ZERO)
    }

    /// Who holds the lock, for those who wait.
    pub(super) fn shown(&self) -> String {
        match self.kind {
            Kind::Exclusive => {
                self.holders.first().map(|holder| holder.owner.clone()).unwrap_or_default()
            }
            kind @ (Kind::Read | Kind::Permits(_)) => shown_group(kind, Some(self.holders.len())),
        }
    }
}

impl Tables {
    /// The record of a lock without the holders whose leases are over; `None`: it is free.
    pub(super) fn live(&mut self, redis_key: &str, now: Moment) -> Option<&mut Record> {
        let here = LeaseClock::here();
        let record = self.locks.get_mut(redis_key)?;
        record.end_leases(&here, now);
        Some(record).filter(|record| !record.holders.is_empty())
    }

    /// Is the lock held by leases that are counted on another clock than the one `here`?
    pub(super) fn is_held_elsewhere(
        &mut self,
        redis_key: &str,
        here: &LeaseClock,
        now: Moment,
    ) -> bool {
        let is_of_other = |record: &Record| record.clock != *here;
        self.locks.get(redis_key).is_some_and(is_of_other) && self.live(redis_key, now).is_some()
    }

    /// The record of a lock that its owner still holds, or what was found instead.
    pub(super) fn ours(&mut self, claim: &Claim, now: Moment) -> Result<&mut Holder, Found> {
        let Some(record) = self.live(claim.key.redis_key(), now) else { return Err(Found::Gone) };
        let is_of_group = record.kind.is_shared() && record.kind.is_like(claim.kind);
        let missing = if is_of_group { Found::Gone } else { Found::Stolen };
        record.of_owner(claim).ok_or(missing)
    }

    /// Is a waiter of another kind next, which met a holder of another kind? Waiters of one kind
    /// never keep each other out, nor do both sides at once: the first of these waiters counts.
    pub(super) fn is_kept_out(&self, claim: &Claim, now: Moment) -> bool {
        let stays = |hint: &&Hint| hint.stays_until.is_some_and(|until| now < until);
        let waiting = self.hints.get(claim.key.redis_key());
        let next = waiting.and_then(|hints| hints.iter().find(stays));
        next.is_some_and(|next| !next.kind.is_like(claim.kind))
    }

    /// Those to be notified that a lock was released: the first who waits, and, if others may hold
    /// the lock beside it, those that may. A writer is notified once all holders have left.
    pub(super) fn hints(&mut self, redis_key: &str, now: Moment) -> Vec<OnRelease> {
        let is_held = self.live(redis_key, now).is_some();
        let Some(waiting) = self.hints.get_mut(redis_key) else { return Vec::new() };
        let exclusive = |hint: &Hint| !hint.kind.is_shared();
        let count = match waiting.first() {
            Some(first) if !exclusive(first) => {
                waiting.iter().position(exclusive).unwrap_or(waiting.len())
            }
            _ => usize::from(!is_held).min(waiting.len()),
        };
        let told = waiting.iter().take(count).map(|hint| Arc::clone(&hint.on_release)).collect();
        let mut place = 0;
        waiting.retain(|hint| {
            place += 1;
            place > count || hint.stays_until.is_some_and(|until| now < until)
        });
        if waiting.is_empty() {
            self.hints.remove(redis_key);
        }
        told
    }

    pub(super) fn next_token(&mut self) -> FencingToken {
        self.last_token = (self.last_token + 1).max(micros_since_epoch());
        let next = FencingToken::new(self.last_token);
        next.unwrap_or_else(|| unreachable!("the tokens last until the year 2255"))
    }

    pub(super) fn sweep(&mut self, here: &LeaseClock, now: Moment) {
        if self.locks.len() < self.next_sweep.max(FIRST_SWEEP) {
            return;
        }
        self.locks.retain(|_, record| {
            record.end_leases(here, now);
            !record.holders.is_empty()
        });
        self.next_sweep = 2 * self.locks.len();
    }
}

pub(super) fn micros_since_epoch() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(0).min(FencingToken::LIMIT - 1)
}
