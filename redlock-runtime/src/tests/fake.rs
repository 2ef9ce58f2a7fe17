//! A backend that plays faults: replies that are lost, late or wrong.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{
    Abilities, Acquired, Claim, Fault, Found, FoundersOffer, FoundersReply, HintRegistration,
    LockBackend, Memory, MemorySince, MemoryStore, OnRelease, QuorumMember, Release, ReleaseHints,
    Reply,
};
use crate::client::Redlock;
use crate::clock::Clock;
use crate::engine::{Engine, Parts};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::options::Policy;
use crate::report::Reports;

/// What happens to one command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// It is answered, after a while.
    Slow(Duration),
    /// It arrives after a while.
    Late(Duration),
    /// It is carried out, but nobody hears of it until the time given to it is up.
    LostReply,
    /// It never arrives; nobody knows until the time given to it is up.
    LostRequest,
    /// The node refuses it.
    Refused(NodeErrorKind, IsFinal),
    /// The code that carries it out panics.
    Panic,
}

pub(super) type IsFinal = bool;

/// Memory, with a list of fates for the next commands of each kind.
#[derive(Debug)]
pub(super) struct Fake {
    name: &'static str,
    memory: Memory,
    pub(super) store: MemoryStore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    acquires: VecDeque<Fate>,
    raises: VecDeque<Fate>,
    renews: VecDeque<Fate>,
    releases: VecDeque<Fate>,
    always: Option<Fate>,
    memory_since: Option<MemorySince>,
    founders: Option<String>,
    clock_offset: Option<i64>,
    log: Vec<String>,
    batches: Vec<(Instant, usize)>,
    registry: Registry,
}

/// Who wants to be told when a lock is let go of.
#[derive(Default)]
struct Registry {
    are_given: bool,
    asked: Vec<(Claim, OnRelease)>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

/// A client on a fake, and the fake.
pub(super) fn fake() -> (Redlock, Arc<Fake>) {
    fake_with(100)
}

pub(super) fn fake_with(max_waiters: usize) -> (Redlock, Arc<Fake>) {
    let fake = Fake::new("fake");
    (client(Arc::clone(&fake) as Arc<dyn LockBackend>, max_waiters), fake)
}

/// A client on a backend.
pub(super) fn client(backend: Arc<dyn LockBackend>, max_waiters: usize) -> Redlock {
    client_at(backend, max_waiters, true)
}

/// The same, embedded in the runtime of its callers or served by the background thread.
pub(super) fn client_at(
    backend: Arc<dyn LockBackend>,
    max_waiters: usize,
    is_embedded: bool,
) -> Redlock {
    let engine = Engine::new(Parts {
        backend,
        client_name: "fake".to_owned(),
        reply_timeout: Duration::from_secs(1),
        max_waiters,
        is_embedded,
        reports: Arc::new(Reports::new(Clock::Tokio)),
    })
    .unwrap();
    Redlock::new(engine, String::new(), Policy::DEFAULT)
}

impl Fake {
    pub(super) fn new(name: &'static str) -> Arc<Self> {
        let store = MemoryStore::new();
        let memory = Memory::new(store.clone());
        Arc::new(Self { name, memory, store, state: Mutex::default() })
    }

    /// Every command meets this fate from now on, unless it has one of its own.
    pub(super) fn always(&self, fate: Option<Fate>) {
        self.state.lock().unwrap().always = fate;
    }

    fn fate(&self, queue: impl Fn(&mut State) -> &mut VecDeque<Fate>) -> Option<Fate> {
        let mut state = self.state.lock().unwrap();
        let own = queue(&mut state).pop_front();
        own.or(state.always)
    }

    pub(super) fn next_acquires(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state.lock().unwrap().acquires.extend(fates);
    }

    pub(super) fn next_raises(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state.lock().unwrap().raises.extend(fates);
    }

    pub(super) fn next_renews(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state.lock().unwrap().renews.extend(fates);
    }

    pub(super) fn next_releases(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state.lock().unwrap().releases.extend(fates);
    }

    /// It tells of releases from now on.
    pub(super) fn gives_notice(&self) {
        self.state.lock().unwrap().registry.are_given = true;
    }

    /// Tells the first who wants to know of it that a key is free.
    pub(super) fn tell(&self, key: &str) {
        let first = {
            let asked = &mut self.state.lock().unwrap().registry.asked;
            let at = asked.iter().position(|(claim, _)| claim.key.name() == key);
            at.map(|at| asked.remove(at))
        };
        if let Some((_, told)) = first {
            told();
        }
    }

    /// How many want to be told of something.
    pub(super) fn awaited(&self) -> usize {
        self.state.lock().unwrap().registry.asked.len()
    }

    /// Since when it remembers its leases.
    pub(super) fn recalls(&self, memory_since: MemorySince) {
        self.state.lock().unwrap().memory_since = Some(memory_since);
    }

    /// Its clock against that of the clients.
    pub(super) fn clock_offset(&self, micros: i64) {
        self.state.lock().unwrap().clock_offset = Some(micros);
    }

    /// What stands on it for other clients.
    pub(super) fn founders(&self) -> Option<String> {
        self.state.lock().unwrap().founders.clone()
    }

    /// What the clients have left on it; it is gone then.
    pub(super) fn take_founders(&self) -> Option<String> {
        self.state.lock().unwrap().founders.take()
    }

    /// Every command that came, as `verb key owner`, and forgets them.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// When renewals came, and how many in one call; forgets them.
    pub(super) fn take_batches(&self) -> Vec<(Instant, usize)> {
        std::mem::take(&mut self.state.lock().unwrap().batches)
    }

    fn note(&self, verb: &str, claim: &Claim) {
        let line = format!("{verb} {} {}", claim.key.name(), claim.owner.as_str());
        self.state.lock().unwrap().log.push(line);
    }
}

/// Lets one command meet its fate; `run` carries it out.
pub(super) async fn meet<T>(
    name: &str,
    fate: Option<Fate>,
    within: Duration,
    run: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let fault = |kind, is_unknown, is_final| {
        Err(Fault { nodes: vec![NodeError::new(name, kind, "on purpose")], is_unknown, is_final })
    };
    match fate {
        None => run.await,
        Some(Fate::Slow(delay)) if delay < within => {
            let answer = run.await;
            tokio::time::sleep(delay).await;
            answer
        }
        Some(Fate::Late(delay)) => {
            tokio::time::sleep(delay).await;
            run.await
        }
        Some(Fate::Slow(_) | Fate::LostReply) => {
            drop(run.await);
            tokio::time::sleep(within).await;
            fault(NodeErrorKind::NoReply, true, false)
        }
        Some(Fate::LostRequest) => {
            tokio::time::sleep(within).await;
            fault(NodeErrorKind::NoReply, true, false)
        }
        Some(Fate::Refused(kind, is_final)) => fault(kind, false, is_final),
        Some(Fate::Panic) => panic!("on purpose"),
    }
}

impl LockBackend for Fake {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.note("acquire", claim);
        let fate = self.fate(|state| &mut state.acquires);
        Box::pin(meet(
            self.name,
            fate,
            within,
            async move { self.memory.acquire(claim, within).await },
        ))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        for claim in claims {
            self.note("renew", claim);
        }
        self.state.lock().unwrap().batches.push((Instant::now(), claims.len()));
        let fate = self.fate(|state| &mut state.renews);
        // Outside of any future, so that the driver itself meets it.
        assert!(!matches!(fate, Some(Fate::Panic)), "on purpose");
        Box::pin(meet(
            self.name,
            fate,
            within,
            async move { self.memory.renew(claims, within).await },
        ))
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        let claim = release.claim;
        self.note("release", claim);
        let fate = self.fate(|state| &mut state.releases);
        Box::pin(meet(self.name, fate, within, async move {
            let found = self.memory.release(release, within).await;
            if matches!(found, Ok(Found::Ours)) {
                self.tell(claim.key.name());
            }
            found
        }))
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.note("raise", claim);
        let fate = self.fate(|state| &mut state.raises);
        let run = async move { self.memory.raise(claim, fencing_token, within).await };
        Box::pin(meet(self.name, fate, within, run))
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        let fate = self.state.lock().unwrap().always;
        Box::pin(meet(self.name, fate, within, async { Ok(()) }))
    }

    fn abilities(&self) -> Abilities<'_> {
        let gives_hints = self.state.lock().unwrap().registry.are_given;
        let release_hints = gives_hints.then_some(self as _);
        Abilities { release_hints, ..Abilities::default() }
    }
}

impl ReleaseHints for Fake {
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        told: OnRelease,
        _: Duration,
    ) -> Reply<'a, HintRegistration> {
        self.note("notice", claim);
        if self.store.owner(claim.key.name()).is_some() {
            self.state.lock().unwrap().registry.asked.push((claim.clone(), told));
        } else {
            told();
        }
        Box::pin(async { Ok(HintRegistration::default()) })
    }

    fn cancel_hint<'a>(&'a self, claim: &'a Claim, _: Duration) -> Reply<'a, Found> {
        self.note("forgo", claim);
        let asked = &mut self.state.lock().unwrap().registry.asked;
        asked.retain(|(known, _)| known.owner != claim.owner);
        Box::pin(async { Ok(Found::Gone) })
    }
}

impl QuorumMember for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.state.lock().unwrap().memory_since.clone()
    }

    fn founders<'a>(
        &'a self,
        _: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, FoundersReply> {
        let fate = self.state.lock().unwrap().always;
        let run = async move {
            let mut state = self.state.lock().unwrap();
            if let Some(FoundersOffer { founders, replaces, .. }) = offer {
                state.founders = state.founders.take().filter(|_| !replaces).or(Some(founders));
            }
            Ok(FoundersReply { founders: state.founders.clone(), clock_offset: state.clock_offset })
        };
        Box::pin(meet(self.name, fate, within, run))
    }
}
