//! What a simulated server does with those who stand in line for a lock: the scripts `join`,
//! `release`, `rotate` and `nudge`.

use std::time::Duration;

use super::node::{Answer, Micros, Node, Record};
use crate::backend::{Claim, Enqueued, FencingTokens, Found, Position, Rotated, TokensUsed};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::owner::Owner;

/// One place in line.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) claim: Claim,
    pub(crate) reserve: u32,
    pub(crate) process: usize,
    /// Otherwise its process asks now and then.
    pub(crate) is_told: bool,
}

/// What a server publishes when it hands a lock over.
#[derive(Debug, Clone)]
pub(crate) struct ReleaseHint {
    pub(crate) process: usize,
    pub(crate) owner: Owner,
    pub(crate) fencing_tokens: FencingTokens,
    pub(crate) lease: Duration,
}

/// So far do reserved fencing tokens run ahead of the clock (`hand_over.lua`), in microseconds.
const LEAD: u64 = 10_000;
/// One hand-over in so many goes to the first in line though it cannot be told (`hand_over.lua`).
const UNTOLD_SHARE: u64 = 17;

impl Node {
    pub(crate) fn join(&mut self, entry: &Entry, now: Micros) -> Answer {
        if self.denies(now) {
            return Answer::Denied;
        }
        let (key, server_time) = (&entry.claim.key, self.server_time(now));
        if self.record(key).live(now).is_none()
            && !self.hand_over(key, Some(&entry.claim.owner), None, now)
        {
            return self.take(entry, now);
        }
        let record = self.record(key);
        if record.is_owned_by(&entry.claim.owner, now) {
            return self.take_over(entry, now);
        }
        record.line.push_back(entry.clone());
        Answer::Enqueued(record.waiting(entry, record.line.len() - 1, now, server_time))
    }

    pub(crate) fn look(&mut self, entry: &Entry, now: Micros) -> Answer {
        if self.denies(now) {
            return Answer::Denied;
        }
        let (key, server_time) = (&entry.claim.key, self.server_time(now));
        if self.record(key).live(now).is_none() {
            let record = self.record(key);
            record.lease = None;
            let Some(ahead) = record.position(&entry.claim.owner) else {
                return Answer::Enqueued(Enqueued::Unknown);
            };
            record.line.remove(ahead);
            return self.take(entry, now);
        }
        let record = self.record(key);
        if record.is_owned_by(&entry.claim.owner, now) {
            record.leave(&entry.claim.owner);
            return self.take_over(entry, now);
        }
        Answer::Enqueued(match record.position(&entry.claim.owner) {
            Some(ahead) => record.waiting(&record.line[ahead], ahead, now, server_time),
            None => Enqueued::Unknown,
        })
    }

    /// Everybody in line.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Entry> {
        self.records.iter().flat_map(|record| &record.line)
    }

    pub(crate) fn leave(&mut self, claim: &Claim, now: Micros) -> Answer {
        if !self.denies(now) {
            self.record(&claim.key).leave(&claim.owner);
        }
        self.free(claim, None, now)
    }

    /// Frees a lock, or hands it over.
    pub(crate) fn free(&mut self, claim: &Claim, drawn: Option<TokensUsed>, now: Micros) -> Answer {
        if let Err(other) = self.record(&claim.key).found(&claim.owner, now) {
            return Answer::Freed(other, false);
        }
        let counter = self.record(&claim.key).counter;
        let given_back = drawn.filter(|drawn| counter == Some(drawn.reserved.into()));
        if self.hand_over(&claim.key, Some(&claim.owner), drawn, now) {
            return Answer::Freed(Found::Ours, true);
        }
        let record = self.record(&claim.key);
        record.lease = None;
        if let Some(TokensUsed { used, .. }) = given_back {
            record.counter = Some(used.into());
        }
        Answer::Freed(Found::Ours, false)
    }

    pub(crate) fn rotate(
        &mut self,
        held: &Claim,
        drawn: TokensUsed,
        next: &Entry,
        now: Micros,
    ) -> Answer {
        if self.denies(now) {
            return Answer::Denied;
        }
        if let Err(other) = self.record(&held.key).found(&held.owner, now) {
            return Answer::Rotated(Rotated::Lost(other));
        }
        let server_time = self.server_time(now);
        if self.hand_over(&held.key, Some(&held.owner), Some(drawn), now) {
            let record = self.record(&held.key);
            record.line.push_back(next.clone());
            let Enqueued::Waiting { holder, position } =
                record.waiting(next, record.line.len() - 1, now, server_time)
            else {
                unreachable!("it was handed over")
            };
            return Answer::Rotated(Rotated::Passed { holder, position });
        }
        let lasts = self.real(next.claim.expire);
        let fencing_tokens = self.draw(&held.key, next.reserve, Some(drawn), now);
        self.record(&held.key).begin_for(&held.owner, now + lasts);
        Answer::Rotated(Rotated::Kept(fencing_tokens))
    }

    pub(crate) fn nudge(&mut self, key: &LockKey, now: Micros) -> Answer {
        if self.record(key).live(now).is_none() && !self.hand_over(key, None, None, now) {
            self.record(key).lease = None;
        }
        let record = self.record(key);
        let left = record.live(now).map(|lease| Duration::from_micros(lease.ends - now));
        Answer::Nudged { left, waiting: record.line.len() }
    }

    /// Gives a free lock to somebody new.
    fn take(&mut self, entry: &Entry, now: Micros) -> Answer {
        let Entry { claim, reserve, .. } = entry;
        let (fencing_tokens, lasts) =
            (self.draw(&claim.key, *reserve, None, now), self.real(claim.expire));
        self.record(&claim.key).begin_for(&claim.owner, now + lasts);
        Answer::Enqueued(Enqueued::Granted(fencing_tokens))
    }

    /// Fencing tokens for the next owner of a key.
    fn draw(
        &mut self,
        key: &LockKey,
        count: u32,
        drawn: Option<TokensUsed>,
        now: Micros,
    ) -> FencingTokens {
        let (server_time, mark) = (self.server_time(now), self.mark);
        let record = self.record(key);
        let last = match (drawn, record.counter) {
            (Some(TokensUsed { used, reserved }), Some(counter))
                if counter == u64::from(reserved) =>
            {
                used.into()
            }
            (Some(TokensUsed { used, .. }), counter) => counter.unwrap_or(mark).max(used.into()),
            (None, counter) => counter.unwrap_or(mark),
        };
        let first = server_time.max(last + 1);
        // Where the tokens come from the counters alone, there is no clock that they run ahead of.
        let latest = if server_time == 0 { u64::MAX } else { first.max(server_time + LEAD) };
        let last = (first + u64::from(count) - 1).min(latest);
        record.counter = Some(last);
        self.mark = mark.max(last);
        range(first, last)
    }

    /// It was handed over meanwhile. Nobody has used any of its fencing tokens.
    fn take_over(&mut self, entry: &Entry, now: Micros) -> Answer {
        let lasts = self.real(entry.claim.expire);
        let record = self.record(&entry.claim.key);
        let Some(last) = record.counter else {
            return self.take(&Entry { reserve: 1, ..entry.clone() }, now);
        };
        record.begin_for(&entry.claim.owner, now + lasts);
        Answer::Enqueued(Enqueued::Granted(range(last, last)))
    }

    /// Gives a lock to the next one in line whose process is there, and who is not `but`. Is there
    /// one?
    fn hand_over(
        &mut self,
        key: &LockKey,
        but: Option<&Owner>,
        mut drawn: Option<TokensUsed>,
        now: Micros,
    ) -> bool {
        if self.denies(now) {
            return false;
        }
        let server_time = self.server_time(now);
        let Some(plan) = self.line.clone() else { return false };
        while let Some(next) = self.record(key).take_next(server_time) {
            if but == Some(&next.claim.owner) {
                continue;
            }
            let lease = next.claim.expire.min(plan.window);
            let ends = now + self.real(lease);
            let fencing_tokens = self.draw(key, next.reserve, drawn, now);
            let FencingTokens { first, last } = fencing_tokens;
            // Nobody uses them if nobody listens.
            drawn = FencingToken::new(u64::from(first) - 1)
                .map(|used| TokensUsed { used, reserved: last });
            self.record(key).begin_for(&next.claim.owner, ends);
            let Entry { claim, process, is_told, .. } = next;
            if is_told {
                self.registry.push(ReleaseHint {
                    process,
                    owner: claim.owner,
                    fencing_tokens,
                    lease,
                });
            }
            if !is_told || plan.has_listener(process, now / 1000) {
                return true;
            }
        }
        false
    }

    fn denies(&self, now: Micros) -> bool {
        self.line.as_ref().is_none_or(|plan| plan.denied_from <= now / 1000)
    }
}

impl Record {
    /// The first in line, mostly one who can be told.
    fn take_next(&mut self, server_time: u64) -> Option<Entry> {
        let is_turn_of_untold = server_time.is_multiple_of(UNTOLD_SHARE);
        let first_told = self.line.iter().position(|entry| entry.is_told);
        let next = first_told.filter(|_| !is_turn_of_untold).unwrap_or(0);
        self.line.remove(next)
    }

    fn leave(&mut self, owner: &Owner) {
        self.line.retain(|entry| entry.claim.owner != *owner);
    }

    fn is_owned_by(&self, owner: &Owner, now: Micros) -> bool {
        self.live(now).is_some_and(|lease| lease.owner == *owner)
    }

    fn found(&self, owner: &Owner, now: Micros) -> Result<(), Found> {
        match self.live(now) {
            None => Err(Found::Gone),
            Some(lease) if lease.owner != *owner => Err(Found::Stolen),
            Some(_) => Ok(()),
        }
    }

    fn position(&self, owner: &Owner) -> Option<usize> {
        self.line.iter().position(|entry| entry.claim.owner == *owner)
    }

    fn waiting(&self, entry: &Entry, ahead: usize, now: Micros, server_time: u64) -> Enqueued {
        let Some(lease) = self.live(now) else { unreachable!("somebody holds it") };
        let free_in = Some(Duration::from_micros(lease.ends - now));
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        let position = Position { free_in, ahead, is_told: entry.is_told, micros: server_time };
        Enqueued::Waiting { holder: lease.owner.as_str().to_owned(), position }
    }
}

fn range(first: u64, last: u64) -> FencingTokens {
    let new = |value| {
        FencingToken::new(value).unwrap_or_else(|| unreachable!("the clock shows the year 2255"))
    };
    FencingTokens { first: new(first), last: new(last) }
}
