//! Everything outside of the processes of one history.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::network::{Connection, Course, Network};
use super::node::{Answer, Command};
use super::plan::{Plan, Tick, millis};
use super::witness::Witness;
use crate::backend::Claim;
use crate::clock::{Clock, Moment};
use crate::owner::Owner;
use crate::renewal::Hold;

#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    start: Instant,
    origin: Moment,
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
        Arc::new(Self { plan, start: Instant::now(), origin: Clock::Tokio.now(), state })
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
        &self,
        connection: Connection,
        command: &Command,
        leaves: Tick,
    ) -> (usize, Course) {
        let mut state = self.state();
        state.witness.tally.commands += 1;
        let sent = state.network.send(&self.plan, connection, command, leaves);
        state.note(self.now(), |state| {
            let what = state.show(command);
            let Connection { process, node, .. } = connection;
            format!("process {process} -> node {node} at {leaves} ms: {what}: {}", sent.1)
        });
        sent
    }

    pub(super) fn send_behind(&self, node: usize, command: Command, at: Tick, after: Tick) -> Tick {
        self.state().network.send_behind(node, command, at, after)
    }

    pub(super) fn answer(&self, ticket: usize, now: Tick) -> Option<(Answer, usize)> {
        let mut state = self.state();
        state.network.settle(now);
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
        state.network.settle(now);
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
            Command::Renew(claims) => {
                let names: Vec<_> = claims.iter().map(|claim| self.name(claim)).collect();
                format!("renew {}", names.join(", "))
            }
        }
    }
}
