//! One history, from its seed to its end.

use std::cell::Cell;
use std::panic;
use std::sync::{Arc, Once};
use std::time::Duration;

use fastrand::Rng;

use super::client::Client;
use super::mixture::Holders;
use super::node::Node;
use super::plan::{NEVER, Plan, Tick, millis};
use super::process::Scheduled;
use super::several::SeveralClient;
use super::wire::Wire;
use super::witness::{Tally, Witness};
use super::world::World;
use crate::backend::{LockBackend, Quorum, QuorumMember, RestartGuard, Rules, majority};
use crate::client::Redlock;
use crate::clock::Clock;
use crate::engine::{Engine, Parts};
use crate::options::Policy;
use crate::report::Reports;

/// Long after everybody should be done, in virtual time.
const BOUND: Duration = Duration::from_secs(60);
/// What a release and its way take where nothing goes wrong.
const RELEASED: Tick = 20;

/// Until the last clean-up behind a command that nobody heard of has landed, and what it handed
/// over to the dead is over.
const LAST_CLEAN_UP: Tick = 6000;

/// What came of a history.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Played {
    pub(super) tally: Tally,
    pub(super) violation: Option<String>,
    pub(super) trace: Option<String>,
}

/// From this seed on histories have groups of holders, and crowds.
pub(super) const GROUPS: u64 = 1_000_000_000;

/// From this seed on clients ask one node for locks of all kinds.
pub(super) const ALL_KINDS: u64 = 2_000_000_000;

/// From this seed on there is one node, and the restart guard.
pub(super) const ONE_GUARDED: u64 = 3_000_000_000;

fn plan(seed: u64, random: &mut Rng) -> Plan {
    let holders = match seed {
        ONE_GUARDED.. => Holders::OneGuarded,
        ALL_KINDS.. => Holders::AllKinds,
        GROUPS.. => Holders::Groups,
        _ => Holders::Single,
    };
    Plan::new(random, holders)
}

/// Do leases outlast every clean-up in the history of a seed?
pub(super) fn has_long_leases(seed: u64) -> bool {
    plan(seed, &mut Rng::with_seed(seed)).has_long_leases()
}

thread_local! {
    /// How many panics there were on this thread.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts panics from now on: nobody awaits the tasks of an engine, or would hear of theirs.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

/// Plays the history of a seed. The same seed plays the same history.
pub(super) fn play(seed: u64, is_traced: bool) -> Played {
    count_panics();
    let panics = PANICS.get();
    // The jitter of the engines.
    fastrand::seed(seed);
    // No I/O driver: a runtime of its own for every history costs next to nothing then, and its
    // timers begin at the same tick.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let mut played = runtime.unwrap().block_on(async {
        let mut random = Rng::with_seed(seed);
        let world = World::new(plan(seed, &mut random), random.fork(), is_traced);
        run(&world, random).await;
        world.end();
        let mut state = world.state();
        // The witness knows holds, and through their backends the world: they must not keep it.
        let Witness { tally, violation, .. } = std::mem::take(&mut state.witness);
        Played { tally, violation, trace: state.trace.take() }
    });
    if PANICS.get() > panics {
        played.violation.get_or_insert_with(|| "a task panicked".to_owned());
    }
    played
}

async fn run(world: &Arc<World>, mut random: Rng) {
    let mut redlocks = Vec::new();
    let mut clients = Vec::new();
    for (process, (count, schedule)) in world.plan.processes.iter().enumerate() {
        let redlock = connect(world, process);
        for number in 0..*count {
            let (world, redlock) = (Arc::clone(world), redlock.clone());
            let (is_first, random) = (process == 0 && number == 0, random.fork());
            let kinds = random.clone().fork();
            let client =
                Client { world: Arc::clone(&world), redlock, process, is_first, random, kinds };
            let work = tokio::spawn(Scheduled::new(world, process, client.work()));
            clients.push((work, schedule.ends()));
        }
        redlocks.push(redlock);
    }
    // Behind those who want one key, whose decisions stay the same.
    for (process, (_, schedule)) in world.plan.processes.iter().enumerate() {
        if let Some(client) = SeveralClient::new(world, &redlocks[process], &mut random) {
            let work = tokio::spawn(Scheduled::new(Arc::clone(world), process, client.work()));
            clients.push((work, schedule.ends()));
        }
    }
    let everybody = async {
        for (mut client, ends) in clients {
            let done = async {
                if let Err(error) = (&mut client).await {
                    world.report(&format!("a client failed: {error}"));
                }
            };
            match ends {
                NEVER => done.await,
                // Nothing is dropped when a process ends: nobody is left who could.
                _ => drop(tokio::time::timeout_at(world.instant(ends), done).await),
            }
        }
    };
    let bound = BOUND + 40 * world.plan.expire.saturating_sub(world.plan.pace);
    if tokio::time::timeout(bound, everybody).await.is_err() {
        world.report("somebody waits for ever");
    }
    check_the_end(world, &redlocks).await;
}

pub(super) fn connect(world: &Arc<World>, process: usize) -> Redlock {
    let count = world.plan.nodes.len();
    let wire = |node| Arc::new(Wire::new(Arc::clone(world), process, node));
    let lease = world.plan.lease();
    let guard = || RestartGuard::new(Clock::Tokio, "founders".into(), lease, lease);
    let backend: Arc<dyn LockBackend> = if count == 1 && !world.plan.is_one_guarded() {
        wire(0)
    } else {
        let nodes = (0..count).map(|node| wire(node) as Arc<dyn QuorumMember>).collect();
        let guard = world.plan.has_guard.then(guard);
        let quorum = majority(count) + world.plan.beyond_majority;
        let reply_timeout = world.plan.reply_timeout;
        let rules = Rules { quorum, guard, replica_wait: Duration::ZERO, reply_timeout };
        Arc::new(Quorum::new(nodes, rules))
    };
    let engine = Engine::new(Parts {
        outage_wait: None,
        backend,
        client_name: "p".to_owned(),
        reply_timeout: world.plan.reply_timeout,
        max_waiters: 100,
        is_embedded: true,
        reports: Arc::new(Reports::new(Clock::Tokio)),
    })
    .unwrap();
    Redlock::new(engine, String::new(), Policy::DEFAULT)
}

/// When everything is quiet no lock is left, and nobody works on one.
async fn check_the_end(world: &World, redlocks: &[Redlock]) {
    // Elsewhere a lock that was let go may stand until its lease ends.
    let quiet = if world.plan.is_calm {
        RELEASED + world.plan.min_hold.map_or(0, millis) * 102 / 100
    } else if world.plan.line.is_some() && !world.plan.has_long_leases() {
        LAST_CLEAN_UP
    } else {
        4 * millis(world.plan.lease()) + 1000
    };
    world.sleep(quiet + world.plan.set_back()).await;
    let now = world.now();
    let mut state = world.state();
    state.network.settle(now);
    let is_kept = world.plan.line.as_ref().is_some_and(|line| line.denied_from == NEVER);
    // A replica that takes over brings back entries that were given up, and a join that lands after
    // its own leave stands there for nobody: such entries end with their queue.
    if is_kept && world.plan.is_calm {
        let waiting = state.network.nodes.iter().flat_map(Node::waiting);
        let waiting = waiting.filter(|process| world.runs_at(*process, now) == now).count();
        if waiting > 0 {
            state.witness.report(now, &format!("{waiting} are left in the queue"));
        }
    }
    let left: usize = state.network.nodes.iter().map(|node| node.locks(now)).sum();
    if left > 0 {
        state.witness.report(now, &format!("{left} locks are left on the nodes"));
    }
    for key in 0..world.plan.keys {
        state.witness.settle(key, now);
    }
    for (process, redlock) in redlocks.iter().enumerate() {
        let is_alive = world.runs_at(process, now) == now;
        let pending = &redlock.engine().pending;
        let (held, locks, pending) = (redlock.held().len(), pending.locks(), pending.count());
        if is_alive && (held, locks, pending) != (0, 0, 0) {
            let left = format!("process {process}: {held} held, {locks} kept, {pending} pending");
            state.witness.report(now, &left);
        }
    }
}
