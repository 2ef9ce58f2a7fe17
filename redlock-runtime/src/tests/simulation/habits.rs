//! How the clients of a history come and go: in closed loops, after long pauses, all at once; and
//! what they do that a lock has to put up with.

use fastrand::Rng;

use super::plan::{CALM_FROM, Tick};

/// What the clients of a history are like.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(super) struct Habits {
    pace: Pace,
    /// Holds are over in a moment, so that locks are passed on in their process.
    pub(super) is_quick: bool,
    /// The first client of the first process leaves a call that waits without a poll for a while.
    pub(super) has_staller: bool,
    /// Guards are kept for long after the last renewal that they may have.
    pub(super) keeps_guards: bool,
    /// Bodies call functions that re-enter their hold, side by side.
    pub(super) has_siblings: bool,
    /// When a person deletes which key on every node, at even times with its queue.
    pub(super) deletions: Vec<(Tick, usize)>,
}

/// When the next turn of a client begins.
#[derive(Debug, Clone, Copy, Default)]
enum Pace {
    /// Right behind the last one.
    #[default]
    Closed,
    /// After a pause of any length up to this one.
    Spread(Tick),
    /// With everybody else, at the multiples of this.
    Bursts(Tick),
}

/// The longest pause between two turns of a client.
const LONGEST_PAUSE: Tick = 1500;
/// The longest time for which a caller is not polled.
pub(super) const LONGEST_STALL: Tick = 3000;

impl Habits {
    pub(super) fn new(random: &mut Rng) -> Self {
        let longest = [100, 400, LONGEST_PAUSE][random.usize(..3)];
        let pace = match random.u8(..5) {
            0 | 1 => Pace::Spread(random.u64(10..=longest)),
            2 => Pace::Bursts(random.u64(20..=longest)),
            _ => Pace::Closed,
        };
        let (has_staller, keeps_guards) = (random.u8(..6) == 0, random.u8(..6) == 0);
        let (is_quick, has_siblings) = (random.u8(..5) < 2, random.u8(..6) == 0);
        let deletions = Vec::new();
        Self { pace, is_quick, has_staller, keeps_guards, has_siblings, deletions }
    }

    /// Keys are deleted: only fencing protects what the lock is for.
    pub(super) fn delete(&mut self, random: &mut Rng, keys: usize) {
        let deletions =
            (0..random.u8(1..=3)).map(|_| (random.u64(..2 * CALM_FROM), random.usize(..keys)));
        self.deletions = deletions.collect();
    }

    /// How often a client wants a lock: more often where it pauses for long, which costs nothing.
    pub(super) fn turns(&self) -> usize {
        match self.pace {
            Pace::Closed => 3,
            Pace::Spread(_) | Pace::Bursts(_) => 6,
        }
    }

    /// How long a client pauses at `now` before its next turn.
    pub(super) fn pause(&self, random: &mut Rng, now: Tick) -> Tick {
        match self.pace {
            Pace::Closed => random.u64(..8),
            Pace::Spread(longest) => random.u64(..=longest),
            Pace::Bursts(period) => period - now % period + random.u64(..3),
        }
    }

    /// For how long a call that waits is not polled, if it is not.
    pub(super) fn stall(&self, random: &mut Rng, is_first: bool) -> Option<Tick> {
        let stalls = self.has_staller && is_first && random.bool();
        stalls.then(|| random.u64(100..=LONGEST_STALL))
    }

    /// For how long a guard is kept behind its work.
    pub(super) fn kept(&self, random: &mut Rng) -> Tick {
        if self.keeps_guards && random.bool() { random.u64(..1500) } else { 0 }
    }
}
