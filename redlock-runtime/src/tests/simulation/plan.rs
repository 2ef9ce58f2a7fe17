//! What a seed decides before the first command leaves.

use std::time::Duration;

use fastrand::Rng;

use super::habits::Habits;
use super::mixture::{Holders, Mixture};
use super::node_plan::{NodePlan, forget_scripts, nodes, set_clocks_back};
use super::notice::Cut;
use super::process::Schedule;
use super::weather::Weather;

/// Milliseconds since the history began.
pub(crate) type Tick = u64;
pub(crate) const NEVER: Tick = Tick::MAX;

/// By how much longer some leases are than most.
const LONG: u32 = 50;
/// From here on no node and no process fails any more. In half of the histories the weather clears
/// up, too.
pub(super) const CALM_FROM: Tick = 900;
/// The locks that clients want; most histories have the first one only.
/// They share a slot, and with it the mark of their fencing tokens.
pub(super) const KEYS: [&str; 2] = ["{k}:hot", "{k}:warm"];

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) keys: usize,
    pub(super) expire: Duration,
    /// What pauses and outages are measured by: mostly the same.
    pub(super) pace: Duration,
    pub(super) reply_timeout: Duration,
    pub(super) nodes: Vec<NodePlan>,
    /// By how many the quorum is larger than a majority.
    pub(super) beyond_majority: usize,
    /// The clients of each process, and when it runs.
    pub(super) processes: Vec<(usize, Schedule)>,
    pub(super) weather: Weather,
    /// When the weather clears up; [`NEVER`]: it does not.
    pub(super) clear_from: Tick,
    pub(super) promise: Promise,
    /// Nodes that were restarted are kept out of votes.
    pub(super) has_guard: bool,
    /// Nothing goes wrong at all.
    pub(super) is_calm: bool,
    /// The node keeps those who wait in a queue.
    pub(super) line: Option<LinePlan>,
    pub(super) habits: Habits,
    pub(super) mixture: Mixture,
    /// Half of the callers want the lock to stay taken for so long.
    pub(super) min_hold: Option<Duration>,
}

/// What is promised in this history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// The lock stands on a quorum of nodes at every step.
    Position,
    /// At most one holder, though nodes may have forgotten its lock.
    Exclusion,
    /// Several may hold the lock; the resource refuses the older ones.
    Fencing,
}

/// How the queue of a node works.
#[derive(Debug, Clone)]
pub(crate) struct LinePlan {
    /// How long a lock that was handed over waits to be claimed.
    pub(crate) window: Duration,
    /// When the clients lose the right to use it.
    pub(crate) denied_from: Tick,
    /// One for each process.
    pub(crate) listeners: Vec<Listener>,
}

/// How a process hears what the server publishes.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    /// Otherwise it asks now and then.
    pub(crate) can_hear: bool,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) ends: Tick,
}

/// How many nodes there are, and by how many their quorum is larger than a majority: mostly an odd
/// number, and none.
fn rules(random: &mut Rng, count: usize) -> (usize, usize) {
    let count = match (count, random.u8(..6)) {
        (3, 0) => 2,
        (5, 0) => 4,
        (count, _) => count,
    };
    let is_larger = random.u8(..6) == 0;
    (count, if is_larger { random.usize(..=(count - 1) / 2) } else { 0 })
}

/// The clients of each process, and when it runs. Some are a crowd, so that queues are long.
fn processes(
    random: &mut Rng,
    aside: Option<&mut Rng>,
    pauses: u16,
    pace: Duration,
) -> Vec<(usize, Schedule)> {
    let is_alone = random.u8(..5) == 0;
    let (count, most) = if is_alone { (1, 8) } else { (random.usize(2..=4), 3) };
    let process = |random: &mut Rng, most| {
        (random.usize(1..=most), Schedule::new(random, pauses, pace, CALM_FROM))
    };
    let few: Vec<_> = (0..count).map(|_| process(random, most)).collect();
    match aside {
        None => few,
        Some(aside) => match aside.u8(..4) {
            0 => (0..aside.usize(6..=12)).map(|_| process(aside, 1)).collect(),
            _ => few,
        },
    }
}

/// The leases of a group end by `TIME`, and nobody enters one without the queue.
fn suit_groups(nodes: &mut [NodePlan], line: Option<&mut LinePlan>) {
    for node in nodes {
        node.stands_still = false;
    }
    if let Some(line) = line {
        line.denied_from = NEVER;
    }
}

fn any_min_hold(random: &mut Rng, pace: Duration) -> Option<Duration> {
    let min_hold = random.u64(10..2 * millis(pace));
    (random.u8(..5) == 0).then(|| Duration::from_millis(min_hold))
}

impl Plan {
    pub(super) fn new(random: &mut Rng, holders: Holders) -> Self {
        // Beside the other decisions, which are those of a history without groups.
        let is_one_guarded = holders == Holders::OneGuarded;
        let has_groups = holders != Holders::Single && !is_one_guarded;
        let mut aside = has_groups.then(|| random.clone().fork());
        let is_calm = random.u8(..4) == 0;
        let pace = Duration::from_millis(random.u64(100..=300));
        let count = if is_one_guarded { 1 } else { [1, 1, 3, 5][random.usize(..4)] };
        let mut shape = random.clone().fork();
        let (count, beyond_majority) = rules(&mut shape, count);
        let clear_from = if shape.bool() { CALM_FROM } else { NEVER };
        let mut weather = Weather::new(random, is_calm);
        let mut some = || if is_calm || random.bool() { 0 } else { random.u16(1..=2) };
        let (outages, pauses) = (some(), some());
        weather.latency = random.u64(..4);
        let (mut nodes, mut promise) =
            nodes(random, count, pace, (is_calm, outages), is_one_guarded);
        let processes = processes(random, aside.as_mut(), pauses, pace);
        let reply_timeout = Duration::from_millis([40, 100, 250][random.usize(..3)]);
        let is_guarded = is_one_guarded || promise == Promise::Exclusion;
        let has_guard = is_guarded || count > 1 && random.bool();
        let keys = 1 + usize::from(random.u8(..4) == 0);
        let mut habits = Habits::new(random);
        if !is_calm && random.u8(..8) == 0 {
            habits.delete(random, keys);
            promise = Promise::Fencing;
        }
        let has_all = !is_calm && promise == Promise::Position;
        if has_all && shape.u8(..4) == 0 {
            set_clocks_back(&mut nodes, &mut shape, pace);
        }
        // Leases that outlast every clean-up, so that what stays behind shows.
        let outlasts = has_all && random.u8(..8) < if count > 1 { 2 } else { 1 };
        let expire = if outlasts { pace * LONG } else { pace };
        if outlasts {
            weather.ease();
        }
        if !is_calm && random.bool() {
            forget_scripts(&mut nodes, random, CALM_FROM + millis(expire));
        }
        let has_line = count == 1 && !is_one_guarded && random.u8(..6) > 0;
        let mut line = has_line.then(|| LinePlan::new(random, is_calm, &processes));
        let mixture =
            aside.map_or(Mixture::Exclusive, |mut aside| Mixture::new(&mut aside, count, holders));
        if mixture.is_shared() {
            suit_groups(&mut nodes, line.as_mut());
        }
        let has_min_hold = matches!(mixture, Mixture::Exclusive | Mixture::AllKinds);
        let min_hold = any_min_hold(random, pace).filter(|_| has_min_hold);
        Self {
            keys,
            expire,
            pace,
            reply_timeout,
            nodes,
            beyond_majority,
            processes,
            weather,
            clear_from,
            promise,
            has_guard,
            is_calm,
            line,
            habits,
            mixture,
            min_hold,
        }
    }

    /// By how much longer a lease may last on a node whose clock is set back.
    pub(super) fn set_back(&self) -> Tick {
        let of = |node: &NodePlan| {
            node.upheavals.iter().map(|(_, upheaval)| upheaval.sets_back_by()).sum()
        };
        self.nodes.iter().map(of).max().unwrap_or(0)
    }

    /// Is there one node, which has no vote after a restart until what it forgot is over?
    pub(super) fn is_one_guarded(&self) -> bool {
        self.has_guard && self.nodes.len() == 1
    }

    /// On how many nodes a lock has to stand.
    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1 + self.beyond_majority
    }

    pub(super) fn weather_at(&self, at: Tick) -> Weather {
        if at < self.clear_from { self.weather } else { self.weather.cleared() }
    }

    /// Do leases outlast the clean-up behind late commands?
    pub(super) fn has_long_leases(&self) -> bool {
        self.expire > self.pace
    }

    /// The longest lease that a server gives.
    pub(super) fn lease(&self) -> Duration {
        self.expire.max(self.min_hold.unwrap_or_default())
    }
}

impl LinePlan {
    fn new(random: &mut Rng, is_calm: bool, processes: &[(usize, Schedule)]) -> Self {
        let window = Duration::from_millis([60, 60, 60, 500][random.usize(..4)]);
        let is_denied = random.u8(..8) == 0;
        let denied_from = if is_denied { random.u64(..CALM_FROM) } else { NEVER };
        let most = if is_calm || random.bool() { 0 } else { 2 };
        let listeners = processes.iter().map(|(_, schedule)| Listener {
            can_hear: random.u8(..8) > 0,
            cuts: (0..random.u64(..=most)).map(|_| Cut::new(random, CALM_FROM)).collect(),
            ends: schedule.ends(),
        });
        let listeners = listeners.collect();
        Self { window, denied_from, listeners }
    }

    /// What the server thinks.
    pub(super) fn has_listener(&self, process: usize, at: Tick) -> bool {
        let Listener { cuts, ends, .. } = &self.listeners[process];
        at < *ends && !cuts.iter().any(|cut| (cut.noticed..cut.until).contains(&at))
    }

    /// Does a process hear what is published at `sent` and arrives at `at`?
    pub(super) fn hears(&self, process: usize, sent: Tick, at: Tick) -> bool {
        let cuts = &self.listeners[process].cuts;
        !cuts.iter().any(|cut| sent < cut.until && cut.from <= at)
    }
}

pub(super) fn millis(duration: Duration) -> Tick {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER)
}
