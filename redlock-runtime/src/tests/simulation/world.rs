//! Everything outside of the processes of one history.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::connects::Connect;
use super::departed::CLEANED_UP;
use super::line::{Call, ReleaseHint};
use super::liveness::{Circumstances, Verdict};
use super::network::{Connection, Course, Network};
use super::node::{Answer, Card, Command};
use super::notice::Tickets;
use super::plan::{KEYS, NEVER, Plan, Tick, millis};
use super::scripts::By;
use super::witness::Witness;
use crate::backend::Claim;
use crate::clock::{Clock, Moment};
use crate::hold::Hold;
use crate::kind::Kind;
use crate::owner::Owner;

#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    start: Instant,
    origin: Moment,
    pub(super) subscriptions: Tickets,
    is_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) network: Network,
    pub(super) witness: Witness,
    /// One line an event, when somebody wants to read it.
    pub(super) trace: Option<String>,
    /// Owner values are random: a trace names them by the order in which they came.
    pub(super) owners: Vec<Owner>,
    /// Those that let go, or gave up: their processes take what is theirs out of queues when asked.
    former: HashSet<Owner>,
    /// How many calls have begun to wait.
    callers: u64,
}

impl World {
    pub(super) fn new(plan: Plan, random: Rng, is_traced: bool) -> Arc<Self> {
        let (network, witness) = (Network::new(&plan, random), Witness::new(&plan));
        let trace = is_traced.then(|| format!("{plan:#?}\n"));
        let (owners, former) = (Vec::new(), HashSet::new());
        let state = Mutex::new(State { network, witness, trace, owners, former, callers: 0 });
        let (start, origin) = (Instant::now(), Clock::Tokio.now());
        let (subscriptions, is_over) = (Tickets::default(), AtomicBool::new(false));
        let world = Arc::new(Self { plan, start, origin, subscriptions, is_over, state });
        world.disturb();
        world
    }

    /// Every subscription that was down and is up again.
    fn disturb(&self) {
        let listeners = self.plan.line.iter().flat_map(|line| &line.listeners).enumerate();
        for (process, listener) in listeners.filter(|(_, listener)| listener.can_hear) {
            for cut in &listener.cuts {
                let subscriptions = self.subscriptions.clone();
                self.at(self.runs_at(process, cut.until), move || subscriptions.disturb(process));
            }
        }
    }

    /// Whoever has gone leaves the queue of the only node.
    fn answer_ping(self: &Arc<Self>, claim: Claim) {
        if self.state().former.contains(&claim.owner) {
            let now = self.now();
            self.send_behind(0, Command::Leave(claim), now, now);
        }
    }

    fn at(&self, at: Tick, act: impl FnOnce() + Send + 'static) {
        if at != NEVER {
            let at = self.instant(at);
            tokio::spawn(async move {
                tokio::time::sleep_until(at).await;
                act();
            });
        }
    }

    /// Carries out everything that has landed, and delivers what was published.
    fn settle(self: &Arc<Self>, state: &mut State, now: Tick) {
        state.network.settle(now);
        for (at, notice) in state.network.published(&self.plan) {
            let ReleaseHint { process, owner, call } = notice;
            state.note(now, |state| {
                let known = state.owners.iter().position(|known| known.as_str() == owner);
                let known = known.map_or(0, |at| at + 1);
                let what = match &call {
                    Call::Signal(signal) => format!("{signal:?}"),
                    Call::Ping(_) => "does it wait?".to_owned(),
                };
                format!("node -> process {process} at {at} ms: to a{known}: {what}")
            });
            let subscriptions = self.subscriptions.clone();
            let at = self.runs_at(process, at);
            match call {
                Call::Signal(signal) => {
                    state.witness.tally.handover_watchdog += u64::from(subscriptions.has(&owner));
                    self.at(at, move || subscriptions.call(&owner, signal));
                }
                Call::Ping(claim) => {
                    let world = Arc::downgrade(self);
                    self.at(at, move || {
                        if let Some(world) = world.upgrade().filter(|world| !world.is_over()) {
                            world.answer_ping(claim);
                        }
                    });
                }
            }
        }
    }

    /// A caller begins to wait. It does so until what is returned is dropped.
    pub(super) fn waits(self: &Arc<Self>, process: usize, key: usize, kind: Kind) -> Waits {
        let now = self.now();
        let mut state = self.state();
        state.callers += 1;
        let id = state.callers;
        let queue = &mut state.witness.keys[key].queue;
        queue.waits(id, (process, kind), now);
        if !std::mem::replace(&mut queue.is_watched, true) {
            self.look_after(key, now + self.plan.longest_vacant(true) + 1);
        }
        state.note(now, |_| {
            format!("caller {id} of process {process} wants {} ({})", KEYS[key], kind.label())
        });
        Waits { world: Arc::clone(self), key, id }
    }

    /// Looks whether somebody waits for too long, and goes on while somebody waits: also, and above
    /// all, when nothing else happens.
    fn look_after(self: &Arc<Self>, key: usize, at: Tick) {
        let world = Arc::downgrade(self);
        self.at(at, move || {
            let Some(world) = world.upgrade().filter(|world| !world.is_over()) else { return };
            let now = world.now();
            let mut state = world.state();
            world.settle(&mut state, now);
            let State { network, witness, .. } = &mut *state;
            let demand = witness.keys[key].queue.demand();
            let circumstances = Circumstances {
                vacancy: network.vacancy(&world.plan, key, demand, now),
                troubled_until: network.mishap(key).max(world.plan.troubled_until(now)),
                origin: world.origin,
                now,
            };
            let queue = &mut witness.keys[key].queue;
            let verdict = queue.look(&world.plan, circumstances);
            queue.is_watched = matches!(verdict, Verdict::Later(_));
            match verdict {
                Verdict::Quiet => {}
                Verdict::Later(at) => world.look_after(key, at),
                Verdict::Stalled(what) => witness.report(now, &what),
            }
        });
    }

    /// What lands in a queue may change the turn of others: somebody has to look in time.
    fn look_at(self: &Arc<Self>, lands: Tick) {
        if self.plan.line.is_some() {
            let world = Arc::downgrade(self);
            self.at(lands, move || {
                if let Some(world) = world.upgrade() {
                    world.settle(&mut world.state(), world.now());
                }
            });
        }
    }

    /// Nobody reaches a node any more: what is left of the engines comes to its end.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> Tick {
        millis(self.start.elapsed())
    }

    pub(super) fn instant(&self, at: Tick) -> Instant {
        self.start + Duration::from_millis(at)
    }

    /// The same point in time, as the engines measure it.
    pub(super) fn moment(&self, at: Tick) -> Moment {
        self.origin.plus(Duration::from_millis(at))
    }

    pub(super) async fn sleep_until(&self, at: Tick) {
        if at > self.now() {
            tokio::time::sleep_until(self.instant(at)).await;
        }
    }

    pub(super) async fn sleep(&self, pause: Tick) {
        self.sleep_until(self.now() + pause).await;
    }

    pub(super) fn runs_at(&self, process: usize, at: Tick) -> Tick {
        self.plan.processes[process].1.runs_at(at)
    }

    pub(super) fn send(
        self: &Arc<Self>,
        connection: Connection,
        (command, by): (&Command, By),
        leaves: Tick,
    ) -> (usize, Course) {
        let mut state = self.state();
        state.witness.tally.commands += 1;
        state.former.extend(command.departing().map(|claim| claim.owner.clone()));
        let sent = state.network.send(&self.plan, connection, (command, by), leaves);
        self.look_at(sent.1.lands);
        state.note(self.now(), |state| {
            let what = state.show(command);
            let Connection { process, node, .. } = connection;
            format!("process {process} -> node {node} at {leaves} ms: {what}, {by:?}: {}", sent.1)
        });
        sent
    }

    /// The connect that a command has to wait for, if its connection is not there at `now`.
    pub(super) fn connect(
        &self,
        connection: Connection,
        command: &Command,
        now: Tick,
    ) -> Option<Connect> {
        let mut state = self.state();
        let connect = state.network.connect(&self.plan, connection, command, now)?;
        state.note(self.now(), |_| format!("{connection:?}: {connect:?}"));
        Some(connect)
    }

    /// The owner of a lock was told that it has let go of it. Where leases are long enough for that
    /// to show, its lock must soon stand nowhere.
    pub(super) fn departs(self: &Arc<Self>, process: usize, claim: &Claim) {
        let is_news = || self.state().witness.departed.is_news(&claim.owner);
        if !self.plan.has_long_leases() || self.is_over() || !is_news() {
            return;
        }
        let (world, claim, since) = (Arc::downgrade(self), claim.clone(), self.now());
        self.at(since + CLEANED_UP, move || {
            let Some(world) = world.upgrade().filter(|world| !world.is_over()) else { return };
            let now = world.now();
            let mut state = world.state();
            world.settle(&mut state, now);
            let State { network, witness, .. } = &mut *state;
            witness.tally.departures += 1;
            let left = witness.departed.left_on(network, &claim, now);
            if let Some(node) = left.filter(|_| world.plan.is_undisturbed(process, since, now)) {
                let name = state.name(&claim);
                let what = format!("{name} let go at {since} ms, and stands on node {node}");
                state.witness.report(now, &what);
            }
        });
    }

    pub(super) fn send_behind(
        self: &Arc<Self>,
        node: usize,
        command: Command,
        at: Tick,
        after: Tick,
    ) -> Tick {
        let mut state = self.state();
        state.former.extend(command.departing().map(|claim| claim.owner.clone()));
        let lands = state.network.send_behind(&self.plan, node, command, at, after);
        drop(state);
        self.look_at(lands);
        lands
    }

    pub(super) fn answer(
        self: &Arc<Self>,
        subscription: usize,
        now: Tick,
    ) -> Option<(Answer, Card)> {
        let mut state = self.state();
        self.settle(&mut state, now);
        state.network.answer(subscription)
    }

    pub(super) fn enter(&self, key: usize, hold: &Arc<Hold>) {
        let now = self.now();
        // Of several keys: since the servers said the last time that all of them are held.
        let unasked = Clock::Tokio.now().since(hold.confirmed().sent);
        let since = now.saturating_sub(millis(hold.held_for().max(unasked)));
        let mut state = self.state();
        state.witness.enter(&self.plan, key, hold, since, now);
        state.note(now, |state| format!("{} is told that it holds", state.name(&hold.claim)));
    }

    /// A call for several keys has some of them, perhaps, until this is called with `false`.
    pub(super) fn set_may_have_some(&self, may: bool) {
        let now = self.now();
        for key in &mut self.state().witness.keys {
            key.queue.count_possible_holder(may, now);
        }
    }

    pub(super) fn step(self: &Arc<Self>, key: usize, hold: &Arc<Hold>) {
        let now = self.now();
        let mut state = self.state();
        self.settle(&mut state, now);
        let State { network, witness, .. } = &mut *state;
        witness.step(&self.plan, network, key, hold, now);
        state.note(now, |state| format!("{} takes a step", state.name(&hold.claim)));
    }

    pub(super) fn claim(&self, key: usize, hold: &Hold) -> Option<u64> {
        self.state().witness.claim(&self.plan, key, hold, self.now())
    }

    pub(super) fn write(&self, key: usize, hold: &Hold, after: Tick, base: u64) {
        self.state().witness.write(key, hold, self.now() + after, base);
    }

    pub(super) fn report(&self, what: &str) {
        self.state().witness.report(self.now(), what);
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.state().note(self.now(), |_| what());
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// One caller that waits.
#[derive(Debug)]
pub(super) struct Waits {
    world: Arc<World>,
    key: usize,
    id: u64,
}

impl Waits {
    /// Nobody polls the call before `at`.
    pub(super) fn stalls_until(&self, at: Tick) {
        if let Some(key) = self.world.state().witness.keys.get_mut(self.key) {
            key.queue.polled_from(self.id, at);
        }
        self.world.note(|| format!("caller {} is not polled before {at} ms", self.id));
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut state = self.world.state();
        // A history that is over has no witness any more.
        let Some(key) = state.witness.keys.get_mut(self.key) else { return };
        key.queue.ends(self.id, self.world.now());
        state.note(self.world.now(), |_| format!("caller {} waits no more", self.id));
    }
}
