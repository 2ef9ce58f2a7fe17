//! Everything outside of the processes of one history.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::line::{Entry, Notice};
use super::network::{Connection, Course, Network};
use super::node::{Answer, Command, Record};
use super::notice::Tickets;
use super::plan::{CALM_FROM, NEVER, Plan, Tick, millis};
use super::witness::Witness;
use crate::backend::{Call, Claim};
use crate::clock::{Clock, Moment};
use crate::owner::Owner;
use crate::renewal::Hold;

#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    start: Instant,
    origin: Moment,
    pub(super) tickets: Tickets,
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
    owners: Vec<Owner>,
}

impl World {
    pub(super) fn new(plan: Plan, random: Rng, is_traced: bool) -> Arc<Self> {
        let (network, witness) = (Network::new(&plan, random), Witness::new(&plan));
        let trace = is_traced.then(|| format!("{plan:#?}\n"));
        let state = Mutex::new(State { network, witness, trace, owners: Vec::new() });
        let (start, origin) = (Instant::now(), Clock::Tokio.now());
        let (tickets, is_over) = (Tickets::default(), AtomicBool::new(false));
        let world = Arc::new(Self { plan, start, origin, tickets, is_over, state });
        world.disturb();
        world
    }

    /// Every subscription that was down and is up again.
    fn disturb(&self) {
        let listeners = self.plan.line.iter().flat_map(|line| &line.listeners).enumerate();
        for (process, listener) in listeners.filter(|(_, listener)| listener.can_hear) {
            for cut in &listener.cuts {
                let tickets = self.tickets.clone();
                self.at(self.runs_at(process, cut.until), move || tickets.disturb(process));
            }
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
    fn settle(&self, state: &mut State, now: Tick) {
        state.network.settle(now);
        self.check_the_line(state, now);
        for (at, notice) in state.network.published(&self.plan) {
            let Notice { process, owner, fencing_tokens, lease } = notice;
            state.witness.tally.hand_overs += u64::from(self.tickets.has(&owner));
            let tickets = self.tickets.clone();
            let call = Call::HandedOver { fencing_tokens, lease };
            self.at(self.runs_at(process, at), move || tickets.call(&owner, call));
        }
    }

    /// Nobody waits for long in line for a lock that nobody has.
    fn check_the_line(&self, state: &mut State, now: Tick) {
        let is_waited_for = |record: &Record| {
            let waits = |entry: &Entry| self.tickets.has(&entry.claim.owner);
            record.live(now * 1000).is_none() && record.line.iter().any(waits)
        };
        if self.plan.line.as_ref().is_none_or(|line| line.denied_from <= now) {
            return;
        }
        let idle: Vec<_> = state.network.nodes[0].records.iter().map(is_waited_for).collect();
        for (key, is_idle) in idle.into_iter().enumerate() {
            let since = state.witness.idle(key, is_idle, now);
            // Whoever stops or is stopped, and the node that is away, are back by then.
            let since = since.max(if self.plan.is_calm { 0 } else { 3 * CALM_FROM });
            if now.saturating_sub(since) > self.plan.longest_idle() {
                state.witness.report(now, "a lock is free, and nobody in line is told");
            }
        }
    }

    /// What lands in a line may be news for others: somebody has to look in time.
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
        command: &Command,
        leaves: Tick,
    ) -> (usize, Course) {
        let mut state = self.state();
        state.witness.tally.commands += 1;
        let sent = state.network.send(&self.plan, connection, command, leaves);
        self.look_at(sent.1.lands);
        state.note(self.now(), |state| {
            let what = state.show(command);
            let Connection { process, node, .. } = connection;
            format!("process {process} -> node {node} at {leaves} ms: {what}: {}", sent.1)
        });
        sent
    }

    pub(super) fn send_behind(
        self: &Arc<Self>,
        node: usize,
        command: Command,
        at: Tick,
        after: Tick,
    ) -> Tick {
        let lands = self.state().network.send_behind(node, command, at, after);
        self.look_at(lands);
        lands
    }

    pub(super) fn answer(&self, ticket: usize, now: Tick) -> Option<(Answer, usize)> {
        let mut state = self.state();
        self.settle(&mut state, now);
        state.network.answer(ticket)
    }

    pub(super) fn enter(&self, key: usize, hold: &Arc<Hold>) {
        let now = self.now();
        let since = now.saturating_sub(millis(hold.held_for()));
        let mut state = self.state();
        state.witness.enter(&self.plan, key, hold, since, now);
        state.note(now, |state| format!("{} is told that it holds", state.name(&hold.claim)));
    }

    pub(super) fn step(&self, key: usize, hold: &Arc<Hold>) {
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

impl State {
    fn note(&mut self, at: Tick, what: impl FnOnce(&mut Self) -> String) {
        if self.trace.is_some() {
            let line = what(self);
            let _ = writeln!(self.trace.get_or_insert_default(), "{at:>6} ms  {line}");
        }
    }

    /// `a3`: the third owner value of this history.
    fn name(&mut self, claim: &Claim) -> String {
        let known = self.owners.iter().position(|owner| *owner == claim.owner);
        let at = known.unwrap_or_else(|| {
            self.owners.push(claim.owner.clone());
            self.owners.len() - 1
        });
        format!("a{} ({})", at + 1, claim.key.name())
    }

    fn show(&mut self, command: &Command) -> String {
        match command {
            Command::Acquire(claim) => format!("acquire {}", self.name(claim)),
            Command::Raise(claim, to) => format!("raise {} to {to}", self.name(claim)),
            Command::Release(claim) => format!("release {}", self.name(claim)),
            Command::Roll(offer) => format!("roll, or else {offer:?}"),
            Command::Join(Entry { claim, .. }) => format!("join {}", self.name(claim)),
            Command::Look(Entry { claim, .. }) => format!("look {}", self.name(claim)),
            Command::Leave(claim) => format!("leave {}", self.name(claim)),
            Command::GiveBack(claim, drawn) => {
                format!("give back {} behind {}", self.name(claim), drawn.used)
            }
            Command::Rotate { held, drawn, next } => {
                let (held, next) = (self.name(held), self.name(&next.claim));
                format!("rotate {held} behind {} for {next}", drawn.used)
            }
            Command::Nudge(key) => format!("nudge {}", key.name()),
            Command::Renew(claims) => {
                let names: Vec<_> = claims.iter().map(|claim| self.name(claim)).collect();
                format!("renew {}", names.join(", "))
            }
        }
    }
}
