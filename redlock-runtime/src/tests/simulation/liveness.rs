//! Whoever waits is served: nobody waits for longer than a bound for a lock that nobody has.
//!
//! Two clocks run for every key while a caller waits that runs and is polled. One counts from when
//! the lock was free on the nodes, and nobody believed to hold it; its bounds are short. The other
//! counts from when somebody believed to hold it, whatever stands on the nodes: a lock that was
//! given to somebody who does not take it is not served either.

use std::sync::Arc;

use super::plan::{NEVER, Plan, Tick};
use super::vacancy::{Demand, Vacancy};
use crate::clock::Moment;
use crate::hold::Hold;
use crate::kind::Kind;

/// Who waits for one lock, and who believes to have it.
#[derive(Debug, Default)]
pub(super) struct LocalQueue {
    callers: Vec<Caller>,
    holders: Vec<Arc<Hold>>,
    /// When the last of the holders before these let go, or lost the lock.
    held_until: Tick,
    /// When the lock was taken, or wanted, the last time in a way that left no room beside holders
    /// of a shared kind.
    barred_until: Tick,
    /// How many calls may have it, on their way to further keys.
    had_by: usize,
    /// Somebody looks after it at a time that is known.
    pub(super) is_watched: bool,
}

#[derive(Debug)]
struct Caller {
    id: u64,
    process: usize,
    kind: Kind,
    /// Since when it waits and is polled; [`NEVER`]: it is not.
    since: Tick,
}

/// What a look has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody waits.
    Quiet,
    /// The next look is due then.
    Later(Tick),
    Stalled(String),
}

/// What has gone wrong, and what the nodes know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    pub(super) vacancy: Option<Vacancy>,
    /// When the last fault ended that may have touched this key.
    pub(super) troubled_until: Option<Tick>,
    pub(super) origin: Moment,
    pub(super) now: Tick,
}

impl LocalQueue {
    pub(super) fn waits(&mut self, id: u64, (process, kind): (usize, Kind), now: Tick) {
        self.callers.push(Caller { id, process, kind, since: now });
    }

    /// What those who wait need: readers and permits queue behind whoever wants the lock alone.
    pub(super) fn demand(&self) -> Demand {
        let is_shared = |caller: &Caller| caller.kind.is_shared();
        if self.callers.iter().all(is_shared) { Demand::Place } else { Demand::Whole }
    }

    /// A caller is not polled any more, or it is again.
    pub(super) fn polled_from(&mut self, id: u64, since: Tick) {
        for caller in self.callers.iter_mut().filter(|caller| caller.id == id) {
            caller.since = since;
        }
    }

    /// A caller was granted the lock, refused, or has gone.
    pub(super) fn ends(&mut self, id: u64, now: Tick) {
        if self.demand() == Demand::Whole {
            self.barred_until = now;
        }
        self.callers.retain(|caller| caller.id != id);
    }

    /// A call may have it while it waits for further keys, or it may not any more.
    pub(super) fn count_possible_holder(&mut self, may: bool, now: Tick) {
        self.had_by = if may { self.had_by + 1 } else { self.had_by - 1 };
        if !may {
            (self.held_until, self.barred_until) = (now, now);
        }
    }

    pub(super) fn enter(&mut self, hold: &Arc<Hold>) {
        self.holders.push(Arc::clone(hold));
    }

    /// Since when somebody waits whose process runs.
    fn waited_since(&self, plan: &Plan, now: Tick) -> Option<Tick> {
        let running = self.callers.iter().filter_map(|caller| {
            let (_, schedule) = &plan.processes[caller.process];
            let runs = caller.since <= now && schedule.runs_at(now) == now;
            runs.then(|| caller.since.max(schedule.ran_since(now)))
        });
        running.min()
    }

    /// Until when somebody believed to hold the lock; `now` while one does. Asks no hold whether it
    /// is over: a hold would find it out by that.
    fn held_until(&mut self, plan: &Plan, origin: Moment, now: Tick) -> Tick {
        let demand = self.demand();
        let places = plan.mixture.places();
        let before = (self.held_until, self.barred_until);
        let (mut until, mut barred) = if self.had_by > 0 { (now, now) } else { before };
        self.holders.retain(|hold| {
            let believes = !hold.remaining().is_zero();
            let ended = if !believes && hold.is_over() {
                let ended = hold.begun().plus(hold.held_for()).since(origin);
                Tick::try_from(ended.as_millis()).unwrap_or(NEVER)
            } else {
                now
            };
            let believes_still = believes || ended == now;
            let bars = !hold.claim.kind.is_shared() || places < usize::MAX && !believes_still;
            until = until.max(ended);
            if bars {
                barred = barred.max(ended);
            }
            believes
        });
        if self.holders.len() >= places {
            barred = now;
        }
        (self.held_until, self.barred_until) = (until, barred);
        if demand == Demand::Whole { until } else { barred }
    }

    pub(super) fn look(&mut self, plan: &Plan, circumstances: Circumstances) -> Verdict {
        let Circumstances { vacancy, troubled_until, origin, now } = circumstances;
        let held_until = self.held_until(plan, origin, now);
        let Some(waited_since) = self.waited_since(plan, now) else {
            // Those of a process that has ended stay for ever.
            let runs_at = |caller: &Caller| plan.processes[caller.process].1.runs_at(now);
            let is_quiet = self.callers.iter().all(|caller| runs_at(caller) == NEVER);
            let later = Verdict::Later(now + plan.longest_vacant(true));
            return if is_quiet { Verdict::Quiet } else { later };
        };
        let since = held_until.max(waited_since);
        let settled = troubled_until.map_or(0, |until| until + plan.longest_aftermath());
        let served_by = (since + plan.longest_unserved()).max(settled);
        let (free_since, was_freed) = match vacancy {
            Some(Vacancy { since: free, was_freed }) => (since.max(free), was_freed),
            None => (now, true),
        };
        let taken_by = (free_since + plan.longest_vacant(was_freed)).max(settled);
        if now > taken_by {
            let waits = now - free_since;
            return Verdict::Stalled(format!("a caller waits for {waits} ms for a free lock"));
        }
        if now > served_by {
            let waits = now - since;
            return Verdict::Stalled(format!("a caller waits for {waits} ms, and nobody holds"));
        }
        Verdict::Later(taken_by.min(served_by) + 1)
    }
}
