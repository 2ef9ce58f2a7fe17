//! A store in memory as a server: every command meets the fate that the script has for it.

#[cfg(test)]
use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use super::fate::{Fate, meet};
use super::script::{Command, FaultScript};
use crate::backend::{
    Abilities, Acquired, Claim, ClockOffset, Downgrade, Downgraded, Fault, FormerList, Found,
    FoundersList, FoundersOffer, LockBackend, Memory, MemorySince, MemoryStore, QuorumMember,
    Release, Reply, process,
};
use crate::clock::{Clock, Moment};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::mutex::Mutex;
#[cfg(test)]
use crate::owner::Owner;

const ANOTHER: &str = "another process answers than the one that the command is for";

/// A backend that plays faults: alone, or as one of N.
#[derive(Debug)]
pub(crate) struct FaultyNode {
    pub(super) name: String,
    pub(super) memory: Memory,
    pub(crate) store: MemoryStore,
    state: Mutex<NodeState>,
}

/// The script of a node, what it keeps for its clients, and what came.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) script: FaultScript,
    pub(crate) memory_since: Option<MemorySince>,
    pub(crate) founders: Option<String>,
    /// When that list ends. `None`: it stays.
    pub(crate) founders_end: Option<Moment>,
    /// What its answers tell of its clock.
    pub(crate) clock_offset: Option<i64>,
    /// By how many microseconds it may be less.
    pub(crate) clock_width: i64,
    /// It has answered a command whose answer brings its time.
    pub(crate) has_answered: bool,
    /// Whether it gives release hints at all.
    pub(crate) gives_hints: bool,
    pub(crate) log: Vec<String>,
    pub(super) last_check: Option<LastCheck>,
    /// The owners of acquires without an answer, which are refused until they let go: the
    /// connections of their clean-ups have ended. `None`: the clean-ups are answered.
    #[cfg(test)]
    pub(crate) unanswered: Option<HashSet<Owner>>,
    #[cfg(test)]
    pub(crate) batches: Vec<(tokio::time::Instant, usize)>,
    /// The list of founders that was offered last.
    #[cfg(test)]
    pub(crate) offered: Option<FoundersOffer>,
}

impl NodeState {
    /// The list of founders, after `offer` was written.
    fn keep_list(&mut self, offer: Option<FoundersOffer>, now: Moment) -> FoundersList {
        if self.founders_end.is_some_and(|end| end <= now) {
            self.founders = None;
        }
        if let Some(FoundersOffer { founders, life, former, .. }) = offer {
            if self.founders.is_none() || former != FormerList::Stays {
                self.founders_end = Some(now.plus(life));
            }
            if self.founders.is_none() || former == FormerList::Replaced {
                self.founders = Some(founders);
            }
        }
        let end = self.founders_end.filter(|_| self.founders.is_some()).unwrap_or_default();
        FoundersList { text: self.founders.clone(), life: end.since(now) }
    }
}

#[cfg(test)]
impl NodeState {
    /// The fate of an acquire of this owner, which may have met one without an answer before.
    fn awaits_clean_up(&mut self, owner: &Owner, fate: Option<Fate>) -> Option<Fate> {
        let Some(unanswered) = &mut self.unanswered else { return fate };
        if unanswered.contains(owner) {
            return Some(Fate::Refused(NodeErrorKind::Refused, false));
        }
        if let Some(Fate::LostReply | Fate::LostRequest) = fate {
            unanswered.insert(owner.clone());
        }
        fate
    }
}

/// Since when checks have found a store as it is.
#[derive(Debug)]
pub(crate) struct LastCheck {
    pub(super) is_up: bool,
    pub(super) since: SystemTime,
}

impl FaultyNode {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        let store = MemoryStore::new();
        let (name, memory) = (name.to_owned(), Memory::new(store.clone()));
        let state = NodeState { clock_offset: Some(0), ..NodeState::default() };
        Arc::new(Self { name, memory, store, state: Mutex::new(state) })
    }

    /// Every command that came, as `verb key owner`, and forgets them.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock()
    }

    pub(super) fn note(&self, verb: &str, claim: &Claim) {
        let line = format!("{verb} {} {}", claim.key.name(), claim.owner.as_str());
        self.state().log.push(line);
    }

    /// Lets a command meet its fate whose answer brings the server's time.
    fn tell_time<'a, T: Send + 'a>(
        &'a self,
        fate: Option<Fate>,
        within: Duration,
        run: impl Future<Output = Result<T, Fault>> + Send + 'a,
    ) -> Reply<'a, T> {
        Box::pin(async move {
            let answer = meet(&self.name, fate, within, run).await;
            self.state().has_answered |= answer.is_ok();
            answer
        })
    }

    fn fate(&self, command: Command) -> Option<Fate> {
        self.state().script.draw(command)
    }
}

impl LockBackend for FaultyNode {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.note("acquire", claim);
        let fate = self.fate(Command::Acquire);
        #[cfg(test)]
        let fate = self.state().awaits_clean_up(&claim.owner, fate);
        let run = async move { self.memory.acquire(claim, within).await };
        self.tell_time(fate, within, run)
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        for claim in claims {
            self.note("renew", claim);
        }
        let fate = self.fate(Command::Renew);
        #[cfg(test)]
        {
            self.state().batches.push((tokio::time::Instant::now(), claims.len()));
            // Outside of any future, so that the driver itself meets it.
            assert!(!matches!(fate, Some(Fate::Panic)), "on purpose");
        }
        let run = async move { self.memory.renew(claims, within).await };
        self.tell_time(fate, within, run)
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        let claim = release.claim;
        self.note("release", claim);
        let fate = self.fate(Command::Release);
        #[cfg(test)]
        if let Some(unanswered) = &mut self.state().unanswered {
            unanswered.remove(&claim.owner);
        }
        let is_here = |here: Arc<str>, only: &str| process(&here) == process(only);
        if release.only_at.is_some_and(|only| !self.run_id().is_some_and(|run| is_here(run, only)))
        {
            let node = NodeError::new(&self.name, NodeErrorKind::Quarantined, ANOTHER);
            let fault = Fault { is_final: true, ..Fault::known(vec![node]) };
            return Box::pin(async { Err(fault) });
        }
        let run = async move { self.memory.release(release, within).await };
        Box::pin(meet(&self.name, fate, within, run))
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.note("raise", claim);
        let fate = self.fate(Command::Raise);
        let run = async move { self.memory.raise(claim, fencing_token, within).await };
        Box::pin(meet(&self.name, fate, within, run))
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        let fate = self.state().script.standing(Command::Any);
        Box::pin(meet(&self.name, fate, within, async { Ok(()) }))
    }

    fn abilities(&self) -> Abilities<'_> {
        let gives_hints = self.state().gives_hints;
        let release_hints = gives_hints.then_some(self as _);
        let downgrade = Some(self as _);
        Abilities {
            release_hints,
            downgrade,
            health: Some(self),
            has_permits: true,
            ..Abilities::default()
        }
    }
}

impl Downgrade for FaultyNode {
    fn downgrade<'a>(
        &'a self,
        held: &'a Claim,
        next: &'a Claim,
        within: Duration,
    ) -> Reply<'a, Downgraded> {
        self.note("downgrade", held);
        let fate = self.fate(Command::Acquire);
        let run = async move { self.memory.downgrade(held, next, within).await };
        self.tell_time(fate, within, run)
    }
}

impl QuorumMember for FaultyNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.state().memory_since.clone()
    }

    fn clock_offset(&self) -> Option<ClockOffset> {
        let state = self.state();
        let high = state.clock_offset.filter(|_| state.has_answered)?;
        Some(ClockOffset { low: high - state.clock_width, high, at: Clock::Tokio.now() })
    }

    fn founders<'a>(
        &'a self,
        _: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, FoundersList> {
        let fate = self.state().script.standing(Command::Any);
        let run = async move {
            let mut state = self.state();
            #[cfg(test)]
            {
                state.offered = offer.clone().or(state.offered.take());
            }
            Ok(state.keep_list(offer, Clock::Tokio.now()))
        };
        self.tell_time(fate, within, run)
    }
}
