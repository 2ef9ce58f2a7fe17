//! Open loops: callers come by chance, whether others still wait or not. How long they wait beside
//! a perfect lock, in virtual time, where nothing goes wrong and computing takes none.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;

use super::habits::Habits;
use super::history::connect;
use super::mixture::Mixture;
use super::node_plan::NodePlan;
use super::plan::{KEYS, LinePlan, Listener, NEVER, Plan, Promise, Tick, millis};
use super::process::Schedule;
use super::weather::Weather;
use super::world::World;
use crate::backend::CLAIM_WINDOW;
use crate::client::Redlock;
use crate::options::Wait;

/// How many callers come in one loop.
const CALLS: usize = 300;
/// Each command is on its way for so long, and so is its answer.
const ONE_WAY: Tick = 2;
const ROUND_TRIP: Tick = 2 * ONE_WAY;
const EXPIRE: Duration = Duration::from_secs(30);

/// Who comes, and how often.
#[derive(Debug, Clone, Copy)]
struct Loop {
    nodes: usize,
    processes: usize,
    /// In parts of what a perfect lock could serve.
    load: f64,
    body: Tick,
}

/// One caller of a loop.
#[derive(Debug, Clone, Copy)]
struct Call {
    came: Tick,
    began: Tick,
    ended: Tick,
}

impl Loop {
    /// On these nodes: short and long bodies, light and heavy loads, in one process and in many.
    fn all(nodes: usize) -> impl Iterator<Item = Self> {
        [0, 16 * ROUND_TRIP].into_iter().flat_map(move |body| {
            [0.1, 0.5, 0.8].into_iter().flat_map(move |load| {
                [1, 3, 24].map(move |processes| Self { nodes, processes, load, body })
            })
        })
    }

    /// What a perfect lock needs for each hold: to hand it over takes a round trip, and without a
    /// body the release and the acquire take one each.
    fn service(self) -> Tick {
        if self.body == 0 { 2 * ROUND_TRIP } else { self.body + ROUND_TRIP }
    }

    /// When each caller comes, and to which process: a Poisson process.
    fn arrivals(self, random: &mut Rng) -> Vec<(Tick, usize)> {
        let mut at = Duration::ZERO;
        let mut next = || {
            let pauses = -(1.0 - random.f64()).ln() / self.load;
            at += Duration::from_millis(self.service()).mul_f64(pauses);
            (millis(at), random.usize(..self.processes))
        };
        (0..CALLS).map(|_| next()).collect()
    }

    /// How long the callers wait for a perfect lock, which serves them in the order in which they
    /// come (Lindley's recursion).
    fn perfect_waits(self, arrivals: &[(Tick, usize)]) -> Vec<Tick> {
        let mut is_free_at = 0;
        let mut wait = |came: Tick| {
            let began = came.max(is_free_at);
            is_free_at = began + self.service();
            began - came
        };
        arrivals.iter().map(|(came, _)| wait(*came)).collect()
    }

    fn plan(self) -> Plan {
        let node = |_| NodePlan {
            rate: 0,
            origin: 1 << 50,
            stands_still: false,
            last_token: 0,
            outages: Vec::new(),
            upheavals: Vec::new(),
        };
        let listener = |_| Listener { can_hear: true, cuts: Vec::new(), ends: NEVER };
        let line = || LinePlan {
            window: CLAIM_WINDOW,
            denied_from: NEVER,
            listeners: (0..self.processes).map(listener).collect(),
        };
        Plan {
            keys: 1,
            expire: EXPIRE,
            pace: EXPIRE,
            reply_timeout: Duration::from_secs(2),
            nodes: (0..self.nodes).map(node).collect(),
            beyond_majority: 0,
            processes: (0..self.processes).map(|_| (0, Schedule::default())).collect(),
            weather: Weather { latency: ONE_WAY, shortest: ONE_WAY, ..Weather::default() },
            clear_from: NEVER,
            promise: Promise::Position,
            has_guard: false,
            is_calm: true,
            line: (self.nodes == 1).then(line),
            habits: Habits::default(),
            mixture: Mixture::Exclusive,
            min_hold: None,
        }
    }

    /// How the engines serve the callers.
    fn serve(self, arrivals: &[(Tick, usize)], random: Rng) -> Vec<Call> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let world = World::new(self.plan(), random, false);
            let redlocks: Vec<_> = (0..self.processes).map(|at| connect(&world, at)).collect();
            let calls = Arc::default();
            let call = |(came, process): &(Tick, usize)| {
                let call = self.call(&world, &redlocks[*process], *came, &calls);
                tokio::spawn(call)
            };
            for call in arrivals.iter().map(call).collect::<Vec<_>>() {
                call.await.unwrap();
            }
            world.end();
            let mut calls = std::mem::take(&mut *calls.lock().unwrap());
            calls.sort_unstable_by_key(|call: &Call| call.came);
            calls
        })
    }

    /// One caller, which notes when its body began and ended.
    fn call(
        self,
        world: &Arc<World>,
        redlock: &Redlock,
        came: Tick,
        calls: &Arc<Mutex<Vec<Call>>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (world, calls) = (Arc::clone(world), Arc::clone(calls));
        let request = redlock.lock(KEYS[0]).expire(EXPIRE).wait(Wait::Forever);
        async move {
            world.sleep_until(came).await;
            let guard = request.acquire().await.unwrap();
            let began = world.now();
            world.sleep(self.body).await;
            calls.lock().unwrap().push(Call { came, began, ended: world.now() });
            // Nobody awaits the release.
            drop(guard);
        }
    }
}

/// The longest wait but for one in a hundred callers.
fn longest_of_most(mut waits: Vec<Tick>) -> Tick {
    waits.sort_unstable();
    waits[waits.len() * 99 / 100]
}

/// For how long nobody was in a body, at most, while somebody waited.
fn longest_idle(calls: &[Call]) -> Tick {
    let mut calls = calls.to_vec();
    calls.sort_unstable_by_key(|call| call.began);
    let (mut was_held_until, mut longest) = (0, 0);
    for (at, call) in calls.iter().enumerate() {
        assert!(was_held_until <= call.began, "two bodies at once");
        let waited_since = calls[at..].iter().map(|call| call.came).min().unwrap();
        longest = longest.max(call.began - waited_since.max(was_held_until));
        was_held_until = call.ended;
    }
    longest
}

/// Plays a loop, and compares it with the perfect lock. `patience`: how many round trips nobody is
/// in a body, at most, while somebody waits.
fn check(seed: u64, row: Loop, patience: Tick) {
    fastrand::seed(seed);
    let mut random = Rng::with_seed(seed);
    let arrivals = row.arrivals(&mut random);
    let calls = row.serve(&arrivals, random);
    assert_eq!(calls.len(), CALLS, "{row:?}");
    let wait = longest_of_most(calls.iter().map(|call| call.began - call.came).collect());
    let perfect = longest_of_most(row.perfect_waits(&arrivals));
    assert!(wait <= 2 * perfect + 2 * ROUND_TRIP, "{row:?}: {wait} ms, perfect: {perfect} ms");
    let idle = longest_idle(&calls);
    assert!(idle <= patience * ROUND_TRIP, "{row:?}: idle for {idle} ms");
}

#[test]
fn who_comes_by_chance_waits_for_a_lock_that_is_nearly_perfect() {
    for (seed, row) in (0..).zip(Loop::all(1)) {
        check(seed, row, 2);
    }
}

/// Nobody can hand over a quorum, so that it is asked for anew.
#[test]
fn who_comes_by_chance_waits_hardly_longer_for_three_masters() {
    for (seed, row) in (0..).zip(Loop::all(3)) {
        check(seed, row, 4);
    }
}
