//! How long a caller may wait for a lock that is free: what `docs/waiting.md` promises, in the
//! terms of a plan. Each constant is an upper bound for a time of the library, written down anew:
//! a library that becomes slower than the documentation says is found.

use super::node_plan::Upheaval;
use super::plan::{NEVER, Plan, Tick, millis};
use crate::backend::CLAIM_WINDOW;

/// What the simulation may round up, one millisecond for each of a few timers.
const ROUNDING: Tick = 5;
/// How long others of a process rely on the attempt of a caller, which may not be polled.
const DIRECT_ATTEMPT: Tick = 10;
/// A client that asks now and then does so once in this time, jitter included.
const LONGEST_PACE: Tick = 100;
/// The same for one that stands in the queue, is not the first, and cannot be told.
const LONGEST_UNTOLD: Tick = 200;
/// The longest pause after split votes in a row.
const LONGEST_SPLIT: Tick = 400;
/// So many processes ask for one key that their votes may be split often in a row.
const CROWD: usize = 5;
/// Those in the queue look this much apart when a lease runs out.
const APART: Tick = 50;
/// An entry of the queue that gets no signal is looked after once in this time.
const LOOK: Tick = 1000;
/// The longest pause after a command that failed.
const LONGEST_BACKOFF: Tick = 320;

impl Plan {
    /// How long a lock may be free on the nodes, with nobody who believes to hold it, while a
    /// caller waits: the answer to a release comes back and an attempt leaves, twice where an
    /// attempt of a caller that is not polled is in the way; or a poll is due.
    pub(super) fn longest_vacant(&self, was_freed: bool) -> Tick {
        let asked = 2 * self.round_trip() + DIRECT_ATTEMPT + ROUNDING;
        let noticed = if was_freed { 0 } else { APART * self.places() };
        asked + noticed + self.pace()
    }

    /// How long callers may wait while nobody believes to hold the lock, though it may stand on
    /// the nodes: it was granted to a caller that does not take it, or handed to a process that
    /// cannot be told, one after the other, or its last holder died.
    pub(super) fn longest_unserved(&self) -> Tick {
        let habits = &self.habits;
        let takes_all = !habits.has_staller && !habits.keeps_guards && self.min_hold.is_none();
        if self.is_calm && takes_all && self.pace() == 0 {
            // Handed over to somebody who is told, and takes it.
            return self.longest_vacant(false);
        }
        let window = self.line.as_ref().map_or(0, |line| {
            let untold = line.listeners.iter().filter(|listener| !listener.can_hear).count();
            millis(line.window) * Tick::try_from(untold).unwrap_or(NEVER)
        });
        let retained = self.min_hold.map_or(0, millis);
        let lease = millis(self.lease()) + self.set_back();
        millis(CLAIM_WINDOW) + retained + lease + window + self.longest_vacant(false)
    }

    /// For how long a fault may have its effect after its end: a command that it hit is given up
    /// and tried again, a lease or a claim window runs out, and whoever has to notice it looks.
    pub(super) fn longest_aftermath(&self) -> Tick {
        let window = self.line.as_ref().map_or(0, |line| millis(line.window));
        let retried = millis(self.reply_timeout) + LONGEST_BACKOFF;
        let lease = millis(self.lease()) + self.set_back();
        retried + lease + window + LOOK + self.longest_vacant(false)
    }

    /// When the last fault that was planned ended, at `now`; `None`: there was none so far. Faults
    /// that begin and end far apart count twice.
    pub(super) fn troubled_until(&self, now: Tick) -> Option<Tick> {
        let pauses = self.processes.iter().flat_map(|(_, schedule)| schedule.changes());
        let outages = self.nodes.iter().flat_map(|node| &node.outages);
        let outages = outages.filter(|outage| outage.from <= now);
        let upheavals = self.nodes.iter().flat_map(|node| &node.upheavals);
        let upheavals = upheavals.filter(|(at, _)| *at <= now).map(|(at, upheaval)| {
            // Until a node that was restarted counts again.
            let is_kept_out = self.has_guard && *upheaval == Upheaval::Forget;
            at + if is_kept_out { 2 * millis(self.lease()) } else { 0 }
        });
        let cuts = self.line.iter().flat_map(|line| &line.listeners);
        let cuts = cuts.flat_map(|listener| &listener.cuts).filter(|cut| cut.from <= now);
        let denied = self.line.iter().map(|line| line.denied_from);
        let deletions = self.habits.deletions.iter().map(|(at, _)| *at);
        let instants = pauses.chain(denied).chain(deletions).filter(|at| *at <= now);
        // Nobody can tell for how long a single node has been up when it is met first.
        let met = self.is_one_guarded().then(|| 2 * millis(self.lease()));
        let spans = outages.map(|outage| outage.until).chain(cuts.map(|cut| cut.until)).chain(met);
        instants.chain(upheavals).chain(spans.map(|until| until.min(now))).max()
    }

    fn round_trip(&self) -> Tick {
        2 * self.weather.latency
    }

    fn places(&self) -> Tick {
        Tick::try_from(self.processes.len()).unwrap_or(NEVER)
    }

    /// How long it takes until everybody who is not told has asked.
    fn pace(&self) -> Tick {
        let is_split_often = self.nodes.len() > 1 && self.processes.len() >= CROWD;
        let split = if is_split_often { LONGEST_SPLIT } else { 0 };
        let Some(line) = &self.line else { return LONGEST_PACE + split };
        let is_told = line.listeners.iter().all(|listener| listener.can_hear);
        match line.denied_from {
            NEVER if is_told => 0,
            _ => LONGEST_UNTOLD,
        }
    }
}
