//! What the attempts so far have observed, and the error that this makes when the time is up.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::backend::{Busy, Fault};
use crate::backoff;
use crate::clock::Moment;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::foreign_text;
use crate::key::LockKey;
use crate::kind::group_of;

/// The last answers about one key.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The last answer was that another owner has the lock, or may have it.
    is_busy: bool,
    /// The owner in that answer; `None`: it is not known.
    pub(crate) holder: Option<String>,
    /// When this holder was first observed.
    holder_since: Option<Moment>,
    pub(crate) free_in: Option<Duration>,
    /// When that lease ends.
    ends: Option<Moment>,
    /// How many processes stand before this one in the queue of the server.
    pub(crate) ahead: Option<u32>,
    /// Several competed at once, and none is known to have enough votes.
    pub(crate) is_split: bool,
    /// Somebody had the lock, in an answer since this began. Where not all votes of an owner can
    /// be seen, this is a guess: one that keeps a vote for longer than an attempt takes is no
    /// longer a competitor.
    pub(crate) was_held: bool,
    pub(crate) fault: Option<Fault>,
    /// How many attempts in a row have failed.
    pub(crate) failures: u32,
    /// Since when no attempt was answered.
    pub(crate) failing_since: Option<Moment>,
    too_late: Option<(Duration, Duration)>,
}

/// From the beginning of a call until now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    pub(crate) started: Moment,
    pub(crate) now: Moment,
}

impl Observed {
    pub(crate) fn busy(&mut self, answer: Busy, now: Moment) {
        let Busy { holder, free_in, is_split } = answer;
        // A group stays the same one while its members change.
        let group = self.holder.as_deref().and_then(group_of);
        let is_same = self.holder == holder
            || group.is_some() && group == holder.as_deref().and_then(group_of);
        let holder_since = self.holder_since.filter(|_| is_same).or(Some(now));
        let age = now.since(holder_since.unwrap_or(now));
        let is_held = !is_split || holder.is_some() && age >= backoff::LONGEST_ATTEMPT;
        let (is_busy, ends) = (true, free_in.map(|free_in| now.plus(free_in)));
        let was_held = self.was_held || is_held;
        let answer = Self { is_busy, holder, free_in, is_split, ..Self::default() };
        *self = Self { holder_since, ends, was_held, ..answer };
    }

    /// The last answer, if it was that another owner has the lock.
    pub(crate) fn answer(&self) -> Option<Busy> {
        let Self { free_in, is_split, .. } = *self;
        self.is_busy.then(|| Busy { holder: self.holder.clone(), free_in, is_split })
    }

    /// What the last attempt showed, in the light of those before it.
    pub(crate) fn after(self, mut before: Self, now: Moment) -> Self {
        let Some(answer) = self.answer() else { return self };
        before.busy(answer, now);
        before
    }

    /// An attempt failed, the first in a row since this moment.
    pub(crate) fn failed(&mut self, fault: Fault, since: Moment) {
        let (failures, failing_since) = (self.failures + 1, self.failing_since.or(Some(since)));
        let was_held = self.was_held;
        *self = Self { fault: Some(fault), failures, failing_since, was_held, ..Self::default() };
    }

    /// The lock was granted: what was observed before is over.
    pub(crate) fn granted(&mut self) {
        *self = Self { was_held: true, ..Self::default() };
    }

    /// Was the last answer a grant, which no caller has yet?
    pub(crate) fn is_granted(&self) -> bool {
        self.was_held && !self.is_busy && self.fault.is_none() && self.too_late.is_none()
    }

    /// When a call that began at `started` gives up, if nothing is answered until then. `limit`:
    /// how long a call waits for that.
    pub(crate) fn gives_up_at(&self, started: Moment, limit: Option<Duration>) -> Moment {
        match (self.failing_since, limit) {
            (Some(since), Some(limit)) => started.max(since).plus(limit),
            _ => Moment::NEVER,
        }
    }

    /// The lock was granted after `took`, with nothing left of `expire`.
    pub(crate) fn too_late(&mut self, took: Duration, expire: Duration) {
        let was_held = self.was_held;
        *self = Self { too_late: Some((took, expire)), was_held, ..Self::default() };
    }

    /// Was the last answer that another owner has the lock?
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Do readers, or holders of permits, have the lock?
    pub(crate) fn is_behind_group(&self) -> bool {
        self.holder.as_deref().is_some_and(|holder| group_of(holder).is_some())
    }

    /// Does nobody have the lock, for all that is known, as several competitors took each other's
    /// votes?
    pub(crate) fn is_nobodys(&self) -> bool {
        self.is_split && !self.was_held
    }

    /// The error of a call that met such competitors, and no holder.
    fn split_error(key: &LockKey) -> LockError {
        let message = "several callers asked at the same moment, and none was granted the lock by \
                       enough servers";
        let node = NodeError::new("quorum", NodeErrorKind::Refused, message);
        let nodes = vec![node.advising("call again later, or wait longer")];
        LockError::Unavailable { key: key.name().to_owned(), nodes }
    }

    /// Has somebody the lock whose key has no expiry, so that it does not end by itself? If no
    /// holder is known, its expiry is not known either.
    pub(crate) fn is_endless(&self) -> bool {
        self.was_held && self.holder.is_some() && self.free_in.is_none()
    }

    /// For how long the present holder has been observed.
    pub(crate) fn hold_age(&self, now: Moment) -> Duration {
        now.since(self.holder_since.unwrap_or(now))
    }

    /// The error of a caller that cannot wait any longer: it came at `started`. `before`: how many
    /// callers of this process stand before it.
    pub(crate) fn error(
        &self,
        key: &LockKey,
        CallTime { started, now }: CallTime,
        attempts: u32,
        before: Option<u32>,
    ) -> LockError {
        let name = key.name().to_owned();
        if let Some(fault) = &self.fault {
            return LockError::Unavailable { key: name, nodes: fault.nodes.clone() };
        }
        if let Some((took, expire)) = self.too_late {
            return LockError::ExpireTooShort { key: name, took, expire };
        }
        if self.is_nobodys() {
            return Self::split_error(key);
        }
        let left = self.ends.map(|ends| ends.since(now));
        let places = self.ahead.zip(before).map(|(ahead, before)| ahead.saturating_add(before));
        let holder = self.holder.as_deref().map(foreign_text::cut);
        LockError::Timeout {
            key: name,
            waited: now.since(started),
            attempts,
            is_endless: self.is_endless(),
            holder,
            is_own: false,
            remaining: left.filter(|left| !left.is_zero()),
            position: places.map(|places| NonZeroU32::MIN.saturating_add(places)),
            is_kept_out: false,
            while_holding: Box::default(),
        }
    }
}
