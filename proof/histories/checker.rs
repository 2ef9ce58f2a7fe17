//! What must hold in a history. Pure: logs in, violations out.
//!
//! A hold lasts from the first step of its body to the end of the body or to its deadline,
//! whichever is earlier; the body of a process that was killed counts as held until its last
//! known deadline. Every moment is taken so that a hold looks shorter than it was: the start after
//! the reply, the end before the release, the deadline before the lease was asked. So what
//! overlaps here has overlapped, and no margin is needed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::lock_kind::LockKind;
use crate::log::{Event, Line, Moment};
use crate::store::{Access, Verb};

mod idle;
mod late;
mod passing;
mod reasons;
mod several;
mod sharing;
mod spans;
#[cfg(test)]
mod tests;
mod together;
mod waits;
mod ways;

pub(crate) use idle::{Idle, check_idle, idle_times};
pub(crate) use late::check_late;
pub(crate) use passing::check_passing;
pub(crate) use reasons::{check_failures, check_releases};
pub(crate) use together::{check_ends, check_found, check_together};
pub(crate) use ways::Ways;

/// One tenure of a lock, as its holder saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub attempt: String,
    pub key: String,
    pub kind: LockKind,
    pub begun: Moment,
    pub granted: Moment,
    /// From here on nobody else may come in: the grant, or the call that was to turn a write lock
    /// into this one.
    pub since: Moment,
    pub fencing: u64,
    /// The latest that the lease has named.
    pub deadline: Moment,
    pub over: Option<Moment>,
    /// Steps that began when the lease said that it was over.
    pub late_steps: usize,
    /// The first of these steps, or of the looks that found a kept guard to be over.
    pub late_at: Option<Moment>,
    /// The last step before these, or the begin of the call.
    pub in_time_at: Moment,
    /// What a second look at what writers write has found, and when.
    pub wrong: Option<(Moment, String)>,
}

impl Hold {
    fn end(&self) -> Moment {
        self.over.unwrap_or(Moment::MAX).min(self.deadline)
    }

    fn lasts(&self) -> bool {
        self.end() > self.since
    }
}

/// A lock key that stands in a server though all processes have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub key: String,
    /// `None`: it does not expire.
    pub left_ms: Option<u64>,
    /// The longest lease that any process asked for.
    pub longest_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// (a) Two held one key at a time.
    Overlap { key: String, holders: [String; 2], by_us: u64 },
    /// (a) More held permits of one key than there are.
    Crowd { key: String, holders: Vec<String>, at: Moment },
    /// (b) A fencing token is not greater than one granted before its attempt began, or is shared.
    Order { key: String, earlier: (String, u64), later: (String, u64) },
    /// (c) The body was polled after its deadline: twice, or by a process that had not been frozen
    /// since the step before.
    Late { attempt: String, steps: usize },
    /// (d) The fenced resource accepted what it had to refuse, or lost an update.
    Fence { key: String, what: String },
    /// (e) A lock outlives its owner by more than its lease.
    Leftover(Leftover),
    /// (e) A process that has done all of its work holds locks.
    Kept { process: String, locks: usize },
    /// (f) A key was free, or had room, though an attempt waited for it, for longer than the bound
    /// of the plan.
    Idle { key: String, waiter: String, after_ms: u64, lasts_ms: u64 },
    /// (g) What writers write has changed under a reader.
    View { attempt: String, key: String, what: String },
    /// (h) Readers came in that had begun when the writer waited already.
    Passed { key: String, writer: String, reader: String, readers: usize },
    /// (i) A call for several keys had some of them, or tokens that differ.
    Part { call: String, what: String },
    /// (i) A body had begun, and the servers did not have its key.
    Absent { attempt: String, what: String },
    /// (j) A call went on for longer than it was to wait.
    Endless { call: String, wait_ms: u64, waited_ms: u64 },
    /// (k) A call failed, or its release did not find the lock, and nothing had happened that makes
    /// it so.
    Baseless { attempt: String, what: String },
}

impl Violation {
    pub(crate) fn class(&self) -> char {
        match self {
            Violation::Overlap { .. } | Violation::Crowd { .. } => 'a',
            Violation::Order { .. } => 'b',
            Violation::Late { .. } => 'c',
            Violation::Fence { .. } => 'd',
            Violation::Leftover(_) | Violation::Kept { .. } => 'e',
            Violation::Idle { .. } => 'f',
            Violation::View { .. } => 'g',
            Violation::Passed { .. } => 'h',
            Violation::Part { .. } | Violation::Absent { .. } => 'i',
            Violation::Endless { .. } => 'j',
            Violation::Baseless { .. } => 'k',
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}) ", self.class())?;
        match self {
            Violation::Overlap { key, holders: [one, two], by_us } => {
                write!(f, "{key} was held by {one} and {two} at once, for {by_us} us")
            }
            Violation::Crowd { key, holders, at } => {
                write!(f, "{key} was held at {at} by {}", holders.join(", "))
            }
            Violation::Order { key, earlier, later } => write!(
                f,
                "{key}: {} got token {} after {} had got {}",
                later.0, later.1, earlier.0, earlier.1
            ),
            Violation::Late { attempt, steps } => {
                write!(f, "{attempt} took {steps} steps after its deadline")
            }
            Violation::Fence { key, what } => write!(f, "{key}: {what}"),
            Violation::Leftover(left) => write!(f, "left behind: {left:?}"),
            Violation::Kept { process, locks } => {
                write!(f, "{process} holds {locks} locks though all of its work is done")
            }
            Violation::Idle { key, waiter, after_ms, lasts_ms } => {
                write!(f, "{key} had room for {waiter} for {lasts_ms} ms, from {after_ms} ms on")
            }
            Violation::View { attempt, key, what } => {
                write!(f, "{key} has changed while {attempt} read it: {what}")
            }
            Violation::Passed { key, writer, reader, readers } => {
                write!(f, "{key}: {readers} readers, {reader} first, passed {writer}")
            }
            Violation::Part { call, what } => write!(f, "{call}, for several keys: {what}"),
            Violation::Absent { attempt, what } => {
                write!(f, "{attempt} had begun without its key on the servers: {what}")
            }
            Violation::Endless { call, wait_ms, waited_ms } => {
                write!(f, "{call} was to wait for {wait_ms} ms, and waited for {waited_ms}")
            }
            Violation::Baseless { attempt, what } => write!(f, "{attempt}, for no reason: {what}"),
        }
    }
}

/// What is known of a call when it begins.
#[derive(Debug, Clone, Copy)]
struct Begun<'a> {
    key: &'a str,
    kind: LockKind,
    at: Moment,
    is_downgrade: bool,
}

impl Begun<'_> {
    fn granted(&self, attempt: &str, at: Moment, fencing: u64) -> Hold {
        Hold {
            attempt: attempt.to_owned(),
            key: self.key.to_owned(),
            kind: self.kind,
            begun: self.at,
            granted: at,
            since: if self.is_downgrade { self.at } else { at },
            fencing,
            deadline: at,
            over: None,
            late_steps: 0,
            late_at: None,
            in_time_at: self.at,
            wrong: None,
        }
    }
}

/// The holds that the logs of all processes tell of, in the order of their grants.
pub(crate) fn holds(lines: &[Line]) -> Vec<Hold> {
    let mut begun: HashMap<&str, Begun<'_>> = HashMap::new();
    let mut tenures: BTreeMap<&str, Hold> = BTreeMap::new();
    for Line { attempt, at, event } in lines {
        match event {
            Event::Begin { key, kind } => {
                begun.insert(attempt, Begun { key, kind: *kind, at: *at, is_downgrade: false });
            }
            Event::Downgrade { from } => {
                let Begun { key, .. } = begun[from.as_str()];
                let kind = LockKind::Read;
                begun.insert(attempt, Begun { key, kind, at: *at, is_downgrade: true });
            }
            Event::Granted { fencing } => {
                let hold = begun[attempt.as_str()].granted(attempt, *at, *fencing);
                tenures.insert(attempt, hold);
            }
            Event::Step { deadline } => {
                // Its call has several keys, and this one is missing.
                let Some(hold) = tenures.get_mut(attempt.as_str()) else { continue };
                hold.deadline = hold.deadline.max(deadline.unwrap_or(0));
                if deadline.is_none() {
                    hold.late_steps += 1;
                    hold.late_at.get_or_insert(*at);
                } else if hold.late_at.is_none() {
                    hold.in_time_at = *at;
                }
            }
            Event::Lapsed => {
                let hold = tenures.get_mut(attempt.as_str()).expect("a grant comes before its end");
                hold.late_at.get_or_insert(*at);
            }
            Event::View { wrong } => {
                let hold = tenures.get_mut(attempt.as_str()).expect("a grant comes before a view");
                hold.wrong = wrong.clone().map(|wrong| (*at, wrong));
            }
            Event::Over => {
                let Some(hold) = tenures.get_mut(attempt.as_str()) else { continue };
                hold.over = Some(*at);
            }
            Event::Failed { .. }
            | Event::Waits { .. }
            | Event::Together { .. }
            | Event::Found { .. }
            | Event::Kept { .. }
            | Event::Released { .. }
            | Event::Frozen
            | Event::Thawed
            | Event::Stalled
            | Event::Resumed
            | Event::Killed
            | Event::Gone { .. } => {}
        }
    }
    let mut holds: Vec<Hold> = tenures.into_values().collect();
    holds.sort_by_key(|hold| hold.granted);
    holds
}

/// All violations of (a), (b) and (g).
pub(crate) fn check_holds(holds: &[Hold]) -> Vec<Violation> {
    let mut keys: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        keys.entry(&hold.key).or_default().push(hold);
    }
    let mut found = Vec::new();
    for (key, holds) in keys {
        sharing::overlaps(key, &holds, &mut found);
        disorder(key, &holds, &mut found);
    }
    // Whose lease was over by then had no right to what it read.
    for hold in holds {
        if let Some((_, what)) = hold.wrong.as_ref().filter(|(at, _)| *at <= hold.deadline) {
            let (attempt, key) = (hold.attempt.clone(), hold.key.clone());
            found.push(Violation::View { attempt, key, what: what.clone() });
        }
    }
    found
}

/// Each hold against the highest token of all that were granted before its attempt began.
fn disorder(key: &str, holds: &[&Hold], found: &mut Vec<Violation>) {
    let mut report = |earlier: &Hold, later: &Hold| {
        found.push(Violation::Order {
            key: key.to_owned(),
            earlier: (earlier.attempt.clone(), earlier.fencing),
            later: (later.attempt.clone(), later.fencing),
        });
    };
    let mut by_begin = holds.to_vec();
    by_begin.sort_by_key(|hold| hold.begun);
    let mut granted = holds.iter().peekable();
    let mut highest: Option<&Hold> = None;
    for hold in by_begin {
        while let Some(before) = granted.next_if(|before| before.granted < hold.begun) {
            if highest.is_none_or(|highest| highest.fencing < before.fencing) {
                highest = Some(before);
            }
        }
        if let Some(highest) = highest.filter(|highest| highest.fencing >= hold.fencing) {
            report(highest, hold);
        }
    }
    let mut first: HashMap<u64, &Hold> = HashMap::new();
    for hold in holds {
        let other = *first.entry(hold.fencing).or_insert(hold);
        // Those that do not overlap in time were reported above. Readers on several servers may
        // come out with one token: no writer is between them.
        let is_reading = hold.kind == LockKind::Read && other.kind == LockKind::Read;
        if other.attempt != hold.attempt && other.granted >= hold.begun && !is_reading {
            report(other, hold);
        }
    }
}

/// All violations of (d): a claim is higher than all before it, a write carries the last claim,
/// and raises the value by one. A look has a token that no claim has gone beyond, and claims go
/// beyond all looks.
pub(crate) fn check_store(accesses: &[Access]) -> Vec<Violation> {
    let mut claims: HashMap<&str, u64> = HashMap::new();
    let mut looks: HashMap<&str, u64> = HashMap::new();
    let mut values: HashMap<&str, u64> = HashMap::new();
    let mut found = Vec::new();
    for access in accesses.iter().filter(|access| access.accepted) {
        let Access { key, fencing, .. } = access;
        let claim = claims.entry(key).or_default();
        let look = looks.entry(key).or_default();
        let what = match access.verb {
            Verb::Look if fencing < claim => format!("look of {fencing} accepted after {claim}"),
            Verb::Look => {
                *look = (*look).max(*fencing);
                continue;
            }
            _ if fencing <= look => format!("{fencing} accepted after the look of {look}"),
            Verb::Claim if fencing <= claim => format!("claim {fencing} accepted after {claim}"),
            Verb::Write { .. } if fencing != claim => {
                format!("write of {fencing} accepted under the claim {claim}")
            }
            Verb::Claim => {
                *claim = *fencing;
                continue;
            }
            Verb::Write { value } => {
                let before = values.insert(key, value).unwrap_or(0);
                if value == before + 1 {
                    continue;
                }
                format!("{value} was written over {before}: an update is lost")
            }
        };
        found.push(Violation::Fence { key: key.clone(), what });
    }
    found
}

/// All violations of (e) by processes that live.
pub(crate) fn check_kept(lines: &[Line]) -> Vec<Violation> {
    let kept = lines.iter().filter_map(|line| match line.event {
        Event::Kept { locks } if locks > 0 => {
            Some(Violation::Kept { process: line.attempt.clone(), locks })
        }
        _ => None,
    });
    kept.collect()
}

/// All violations of (e) on the servers: no process is left that could renew, so what remains must
/// end by itself within one lease.
pub(crate) fn check_leftovers(leftovers: &[Leftover]) -> Vec<Violation> {
    let outlives = |left: &&Leftover| left.left_ms.is_none_or(|ms| ms > left.longest_ms);
    leftovers.iter().filter(outlives).cloned().map(Violation::Leftover).collect()
}
