//! What a seed decides of each node: its clock, when it is away, and what happens to its data.

use std::time::Duration;

use fastrand::Rng;

use super::plan::{CALM_FROM, Promise, Tick, millis};

/// Later than any clock.
const BASE_TOKEN: u64 = 1 << 52;
/// What the clocks of the nodes show, give or take a minute, in microseconds.
const BASE_TIME: u64 = 1 << 50;
const MINUTE: u64 = 60_000_000;
/// What the promise allows: the rates of clocks differ by 1 %, in parts per million.
const RATE: i64 = 10_000;

#[derive(Debug)]
pub(crate) struct NodePlan {
    /// How much faster than real time its clock runs, in parts per million.
    pub(crate) rate: i64,
    /// What its clock shows at the beginning, in microseconds.
    pub(crate) origin: u64,
    /// `TIME` always shows the same, unless it is set back: tokens come from the counters alone.
    pub(crate) stands_still: bool,
    /// The highest fencing token of before.
    pub(crate) last_token: u64,
    pub(crate) outages: Vec<Outage>,
    pub(crate) upheavals: Vec<(Tick, Upheaval)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub(super) from: Tick,
    pub(super) until: Tick,
    pub(super) how: Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Connections are refused.
    Down,
    /// What arrives is carried out afterwards.
    Frozen,
    /// Nothing arrives.
    Silent,
}

/// What happens to the data or the clock of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upheaval {
    /// All of it is lost.
    Forget,
    /// The fencing counters of the locks are lost, and the mark is not.
    LoseCounters,
    /// A replica copies it for the last time ..
    Copy,
    /// .. and takes over.
    FailOver,
    /// The scripts are lost, and nothing else.
    ForgetScripts,
    /// Its clock is set back by so many milliseconds: all leases that stand last longer by that.
    SetBack(Tick),
}

/// `count` nodes, each with `outages` outages, and what is promised with them.
pub(super) fn nodes(
    random: &mut Rng,
    count: usize,
    pace: Duration,
    (is_calm, outages): (bool, u16),
    is_one_guarded: bool,
) -> (Vec<NodePlan>, Promise) {
    let mut promise = Promise::Position;
    let counts_alone = random.bool() && !is_one_guarded;
    let mut nodes: Vec<NodePlan> =
        (0..count).map(|_| NodePlan::new(random, pace, counts_alone, outages)).collect();
    let upheaval = [Upheaval::Forget, Upheaval::FailOver][random.usize(..2)];
    let mut is_rare = || random.u8(..if is_one_guarded { 2 } else { 4 }) == 0;
    if !is_calm && !counts_alone && is_rare() {
        promise = upset(&mut nodes, random, upheaval, is_one_guarded);
    }
    if !is_calm && random.u8(..4) == 0 {
        lose_counters(&mut nodes[0], random);
    }
    (nodes, promise)
}

/// Nodes lose what they know. Gives what is promised then.
fn upset(
    nodes: &mut [NodePlan],
    random: &mut Rng,
    upheaval: Upheaval,
    is_one_guarded: bool,
) -> Promise {
    if let [only] = nodes
        && !is_one_guarded
    {
        only.upset(random, upheaval);
        return Promise::Fencing;
    }
    for node in nodes {
        // A token outlives the data of its node in a clock that the others agree with.
        node.origin = BASE_TIME;
        if is_one_guarded || random.bool() {
            node.upset(random, Upheaval::Forget);
        }
    }
    Promise::Exclusion
}

/// Within the promise, also where tokens do not follow a clock.
fn lose_counters(node: &mut NodePlan, random: &mut Rng) {
    let times = (0..random.u8(1..8)).map(|_| random.u64(..CALM_FROM));
    node.upheavals.extend(times.map(|at| (at, Upheaval::LoseCounters)));
}

pub(super) fn forget_scripts(nodes: &mut [NodePlan], random: &mut Rng, latest: Tick) {
    for node in nodes {
        let times = (0..random.u8(1..4)).map(|_| random.u64(..latest));
        node.upheavals.extend(times.map(|at| (at, Upheaval::ForgetScripts)));
    }
}

/// Within the promise: only leases that nobody renews or releases are longer by that.
pub(super) fn set_clocks_back(nodes: &mut [NodePlan], random: &mut Rng, pace: Duration) {
    for node in nodes {
        for _ in 0..random.u8(..4) {
            let (at, by) = (random.u64(..CALM_FROM), random.u64(1..3 * millis(pace)));
            node.upheavals.push((at, Upheaval::SetBack(by)));
        }
    }
}

impl Outage {
    /// Does any of it lie between these?
    pub(super) fn is_within(&self, since: Tick, until: Tick) -> bool {
        self.from <= until && self.until >= since
    }
}

impl Upheaval {
    /// By how many milliseconds it sets a clock back.
    pub(super) fn sets_back_by(self) -> Tick {
        if let Self::SetBack(by) = self { by } else { 0 }
    }
}

impl NodePlan {
    pub(super) fn new(
        random: &mut Rng,
        expire: Duration,
        counts_alone: bool,
        outages: u16,
    ) -> Self {
        let longest = 2 * millis(expire);
        let outages = (0..outages).map(|_| {
            let from = random.u64(..CALM_FROM);
            let until = from + random.u64(5..longest);
            let how = [Failure::Down, Failure::Frozen, Failure::Silent][random.usize(..3)];
            Outage { from, until, how }
        });
        let outages = outages.filter(|outage| outage.until < CALM_FROM).collect();
        let skew = random.u64(..MINUTE);
        let (origin, stands_still) = (BASE_TIME + skew, counts_alone);
        let is_ahead = counts_alone && random.u8(..4) == 0;
        let last_token = if is_ahead { BASE_TOKEN + skew } else { 0 };
        // The ends of the range are where it is tight.
        let rate = [-RATE, 0, RATE, random.i64(-RATE..=RATE)][random.usize(..4)];
        Self { rate, origin, stands_still, last_token, outages, upheavals: Vec::new() }
    }

    /// It takes a moment until the node is back, so that its clock has moved on.
    fn upset(&mut self, random: &mut Rng, upheaval: Upheaval) {
        let at = random.u64(50..CALM_FROM);
        if upheaval == Upheaval::FailOver {
            self.upheavals.push((at - random.u64(1..50), Upheaval::Copy));
        }
        self.upheavals.push((at, upheaval));
        self.outages.push(Outage { from: at - 1, until: at + 10, how: Failure::Down });
    }

    pub(super) fn outage(&self, at: Tick) -> Option<Outage> {
        self.outages.iter().copied().find(|outage| (outage.from..outage.until).contains(&at))
    }
}
