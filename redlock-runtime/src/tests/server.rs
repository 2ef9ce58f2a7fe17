//! A server with a queue of waiters, for several clients: the one of the simulation, with fates for
//! the commands that come next.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;

use self::local::{Local, on_background_timers};
use super::fake::{Fate, client, meet};
use super::simulation::line::{Call, Entry, ReleaseHint};
use super::simulation::node::{Answer, Command, Node};
use super::simulation::node_plan::NodePlan;
use super::simulation::notice::Tickets;
use super::simulation::plan::{LinePlan, Listener, NEVER};
use super::simulation::scripts::By;
use crate::backend::{
    Abilities, AcquireAll, Acquired, AllAcquired, Claim, EachReleased, Fault, FencingTokens, Found,
    LockBackend, Look, QueueSignal, Release, ReleaseAll, Reply,
};
use crate::client::Redlock;
use crate::clock::paused_runtime;
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::Owner;

mod local;
mod queue;

/// How long its hand-overs wait to be claimed: less than the first in the queue goes without a
/// look.
pub(super) const WINDOW: Duration = Duration::from_millis(500);

/// What its clock shows in the beginning.
const ORIGIN: u64 = 1 << 50;

pub(crate) struct Server {
    pub(super) node: Mutex<Node>,
    begun: Instant,
    subscriptions: Tickets,
    state: Mutex<State>,
    me: Weak<Self>,
}

/// How its client is signalled.
#[derive(Default, PartialEq, Eq)]
enum Signals {
    #[default]
    Certain,
    Uncertain,
    /// The connection for them has still to be made.
    Unconnected,
}

#[derive(Default)]
struct State {
    fates: HashMap<&'static str, VecDeque<Fate>>,
    log: Vec<String>,
    looks: Vec<Look>,
    /// How long what is published is on its way; `None`: nobody hears it.
    publishes: Option<Duration>,
    local_connection: Local,
    signals: Signals,
    acquires_all: bool,
    /// Each acquire is answered when it is repeated: its connection broke under the first try.
    repeats_acquires: bool,
}

impl Server {
    pub(crate) fn new() -> Arc<Self> {
        let listener = Listener { can_hear: true, cuts: Vec::new(), ends: NEVER };
        let line = LinePlan { window: WINDOW, denied_from: NEVER, listeners: vec![listener] };
        let plan = NodePlan {
            rate: 0,
            origin: ORIGIN,
            stands_still: false,
            last_token: 0,
            outages: Vec::new(),
            upheavals: Vec::new(),
        };
        let state = State { publishes: Some(Duration::ZERO), ..State::default() };
        Arc::new_cyclic(|me| Self {
            node: Mutex::new(Node::new(&plan, Some(line))),
            begun: Instant::now(),
            subscriptions: Tickets::default(),
            state: Mutex::new(state),
            me: me.clone(),
        })
    }

    /// One process more.
    pub(crate) fn client(self: &Arc<Self>) -> Redlock {
        client(Arc::clone(self) as Arc<dyn LockBackend>, 100)
    }

    pub(crate) fn next(&self, verb: &'static str, fates: impl IntoIterator<Item = Fate>) {
        self.state().fates.entry(verb).or_default().extend(fates);
    }

    /// What was to happen to these commands does not.
    pub(super) fn recovers(&self, verb: &str) {
        self.state().fates.remove(verb);
    }

    /// From now on what is published takes so long; `None`: it is lost.
    pub(super) fn publishes(&self, delay: Option<Duration>) {
        self.state().publishes = delay;
    }

    /// One command can take several locks, and one release them.
    pub(crate) fn acquires_all(&self) {
        self.state().acquires_all = true;
    }

    /// From now on the first try of each acquire breaks off, and may still land.
    pub(super) fn repeats_acquires(&self) {
        self.state().repeats_acquires = true;
    }

    /// May anybody use the queue from now on?
    pub(super) fn allows_line(&self, is_allowed: bool) {
        let denied_from = if is_allowed { NEVER } else { 0 };
        self.node.lock().unwrap().line.as_mut().unwrap().denied_from = denied_from;
    }

    pub(crate) fn disturb(&self) {
        self.subscriptions.disturb(0);
    }

    /// A signal comes that the server sent so long ago.
    pub(super) fn calls_from_the_past(&self, age: Duration) {
        let age = u64::try_from(age.as_micros()).unwrap();
        let old = FencingToken::new(ORIGIN + self.micros() - age).unwrap();
        let fencing_tokens = FencingTokens::one(old);
        self.subscriptions.call_all(0, QueueSignal::HandedOver { fencing_tokens, lease: WINDOW });
    }

    /// Makes a queue entry, or takes the lock, for nobody.
    pub(crate) fn set(&self, key: &str, expire: Duration) -> Claim {
        let key = LockKey::new("", key).unwrap();
        let claim =
            Claim { key, owner: Owner::of_nobody("somebody"), expire, kind: Kind::Exclusive };
        self.run(&Command::Join(Entry::told(&claim, 1)));
        claim
    }

    pub(super) fn free(&self, claim: &Claim) {
        self.run(&Command::Release(claim.clone()));
    }

    /// A person deletes the lock.
    pub(super) fn remove(&self, key: &str) {
        self.node.lock().unwrap().delete(&LockKey::new("", key).unwrap());
    }

    /// A person deletes the queue of a lock.
    pub(super) fn lose_queue(&self, key: &str) {
        self.node.lock().unwrap().delete_queue(&LockKey::new("", key).unwrap());
    }

    /// The owner that stands in a key.
    pub(crate) fn owner(&self, key: &str) -> Option<String> {
        let (owner, ends) = self.node.lock().unwrap().lease(key)?;
        (self.micros() < ends).then_some(owner)
    }

    /// How much longer.
    pub(super) fn left(&self, key: &str) -> Duration {
        let ends = self.node.lock().unwrap().lease(key).map_or(0, |(_, ends)| ends);
        Duration::from_micros(ends.saturating_sub(self.micros()))
    }

    /// The last fencing token of a lock that was reserved, where some were.
    pub(super) fn reserved(&self, key: &str) -> Option<u64> {
        let counter = LockKey::new("", key).unwrap().counter_key();
        self.node.lock().unwrap().text(&counter)?.parse().ok()
    }

    /// How many stand in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.node.lock().unwrap().waiting().count()
    }

    /// Every command that came, as `verb owner`, and forgets them.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// How entries were checked since the last call.
    pub(super) fn take_looks(&self) -> Vec<Look> {
        std::mem::take(&mut self.state().looks)
    }

    /// The verbs alone.
    pub(crate) fn take_verbs(&self) -> Vec<String> {
        let verb = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        self.take_log().into_iter().map(verb).collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap() * 1000
    }

    fn run(&self, command: &Command) -> Answer {
        let mut node = self.node.lock().unwrap();
        let answer = node.execute(command, By::Digest, self.micros() / 1000);
        let registry = std::mem::take(&mut node.registry);
        drop(node);
        let Some(delay) = self.state().publishes else { return answer };
        for ReleaseHint { owner, call, .. } in registry {
            let Call::Signal(call) = call else { continue };
            let subscriptions = self.subscriptions.clone();
            if delay.is_zero() {
                subscriptions.call(&owner, call);
            } else {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    subscriptions.call(&owner, call);
                });
            }
        }
        answer
    }

    fn send<'a, T>(
        &'a self,
        verb: &'static str,
        claim: &Claim,
        command: Command,
        within: Duration,
        read: impl FnOnce(Answer) -> Option<T> + Send + 'a,
    ) -> Reply<'a, T>
    where
        T: Send + 'a,
    {
        let mut state = self.state();
        state.log.push(format!("{verb} {}", claim.owner.as_str()));
        let fate = state.fates.get_mut(verb).and_then(VecDeque::pop_front);
        let is_local = state.local_connection != Local::No && paused_runtime().is_none();
        drop(state);
        let met = meet("server", fate, within, async move {
            if matches!(fate, Some(Fate::SentAgain)) {
                self.run(&command);
            }
            let answer = self.run(&command);
            if matches!(answer, Answer::Denied) {
                let node = NodeError::new("server", NodeErrorKind::NoPermission, "no line for you");
                return Err(Fault { nodes: vec![node], is_unknown: false, is_final: true });
            }
            Ok(read(answer).unwrap())
        });
        if is_local { on_background_timers(met) } else { Box::pin(met) }
    }
}

impl LockBackend for Server {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.send("acquire", claim, Command::Acquire(claim.clone()), within, |answer| {
            let Answer::Acquired(mut acquired) = answer else { return None };
            let (Acquired::Granted { was_cut, .. } | Acquired::Refused { was_cut, .. }) =
                &mut acquired;
            *was_cut = self.state().repeats_acquires;
            Some(acquired)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        self.send("renew", &claims[0], Command::Renew(claims.to_vec()), within, |answer| {
            if let Answer::Renewed(found) = answer { Some(found) } else { None }
        })
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        let Release { claim, give_back, may_be_queued, retain, .. } = release;
        let (verb, command) = match (retain, give_back) {
            (Some(left), _) => ("retain", Command::Retain(claim.clone(), left)),
            _ if may_be_queued => ("leave", Command::Leave(claim.clone())),
            (None, Some(tokens)) => ("give_back", Command::GiveBack(claim.clone(), tokens)),
            (None, None) => ("release", Command::Release(claim.clone())),
        };
        self.send(verb, claim, command, within, Answer::freed)
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        let command = Command::Raise(claim.clone(), fencing_token);
        self.send("raise", claim, command, within, Answer::found)
    }

    fn verify(&self, _: Duration) -> Reply<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn abilities(&self) -> Abilities<'_> {
        let acquire_all = self.state().acquires_all.then_some(self as _);
        let (fifo_queue, local_connection) = (Some(self as _), Some(self as _));
        let release_all = self.state().acquires_all.then_some(self as _);
        let departures = (self.state().local_connection == Local::Full).then_some(self as _);
        Abilities {
            fifo_queue,
            acquire_all,
            release_all,
            local_connection,
            departures,
            ..Abilities::default()
        }
    }
}

impl AcquireAll for Server {
    fn reaches(&self, _: &[Claim]) -> bool {
        true
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, AllAcquired> {
        let command = Command::AcquireAll(claims.to_vec());
        self.send("acquire_all", &claims[0], command, within, |answer| {
            let Answer::AllAcquired(mut found) = answer else { return None };
            let (AllAcquired::Granted { was_cut, .. } | AllAcquired::Refused { was_cut, .. }) =
                &mut found;
            *was_cut = self.state().repeats_acquires;
            Some(found)
        })
    }
}

impl ReleaseAll for Server {
    fn reaches(&self, releases: &[Release<'_>]) -> bool {
        releases.iter().all(Release::is_plain)
    }

    fn release_all<'a>(
        &'a self,
        releases: &'a [Release<'a>],
        within: Duration,
    ) -> EachReleased<'a> {
        let claims: Vec<Claim> = releases.iter().map(|release| release.claim.clone()).collect();
        let (first, command) = (claims[0].clone(), Command::ReleaseAll(claims));
        let sent = self.send("release_all", &first, command, within, |answer| {
            let Answer::AllFreed(each) = answer else { return None };
            Some(each.into_iter().map(|(found, _)| found).collect::<Vec<_>>())
        });
        Box::pin(async move {
            match sent.await {
                Ok(each) => each.into_iter().map(Ok).collect(),
                Err(fault) => releases.iter().map(|_| Err(fault.clone())).collect(),
            }
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
