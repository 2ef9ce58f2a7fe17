//! Waiting by repeated attempts: on N masters, where replicas have to confirm a lock, and in
//! memory. A poller that may queue on the server (`in_queue.rs`) makes such attempts as well, while
//! no other process competes for the lock, or where the queue is refused to it.

use std::sync::Arc;
use std::time::Duration;

use super::context::PollerContext;
use super::fairness::{self, Fairness};
use super::local_holder::LocalHolder;
use super::release_hint::{self, ReleaseHint};
use super::strategy::Strategy;
use crate::acquire::attempt::{Ungranted, attempt};
use crate::backend::{Claim, QueueSignal};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{Tenure, Terms};
use crate::owner::Owner;
use crate::release;

pub(super) struct ByAttempts {
    /// Makes attempts with this owner until the lock is granted or an outcome is unknown.
    owner: Owner,
    fairness: Fairness,
    hint: Option<ReleaseHint>,
    /// The next attempt follows a release, not the clock.
    is_woken: bool,
    /// Attempts since the last grant.
    attempts: u32,
    /// How long the last attempt took that found the lock busy.
    took: Duration,
    /// Attempts in a row that met a split vote.
    splits: u32,
    next_ask: Moment,
}

/// The outcome of one attempt.
pub(super) enum AttemptOutcome {
    Granted(Tenure),
    Busy,
    /// The pause before the next attempt.
    Failed(Duration),
}

impl ByAttempts {
    /// `is_decisive`: a single server decides alone who has the lock.
    pub(super) async fn attempt(
        &mut self,
        poller: &mut PollerContext,
        terms: Terms,
        is_decisive: bool,
    ) -> AttemptOutcome {
        self.attempts = self.attempts.saturating_add(1);
        poller.local_queue().count_attempt();
        let within = poller.acquire_within();
        let key = poller.local_queue().key().clone();
        let (owner, kind) = (self.owner.clone(), poller.local_queue().kind);
        let claim = Claim { key, owner, expire: terms.lease(), kind };
        let engine = Arc::clone(&poller.engine);
        let local_holder = LocalHolder::of(poller.local_queue());
        let begun = poller.now();
        let asked = attempt(&engine, &*engine.backend, &claim, terms.template, begun, within);
        match poller.patiently(asked).await {
            Ok(tenure) => {
                local_holder.learn(&engine, poller.local_queue(), None);
                // An owner value is used for one tenure only.
                self.owner = Owner::fresh(&engine.client);
                self.fairness.granted(poller.now());
                self.hint = None;
                AttemptOutcome::Granted(tenure)
            }
            Err(Ungranted::Busy { answer, is_spent }) => {
                if is_spent {
                    self.owner = Owner::fresh(&engine.client);
                }
                if let (true, Some(holder)) = (is_decisive, &answer.holder) {
                    local_holder.learn(&engine, poller.local_queue(), Some(holder));
                }
                let now = poller.now();
                self.took = now.since(begun);
                poller.busy(answer);
                let is_split = poller.observed.is_split;
                self.splits = if is_split { self.splits.saturating_add(1) } else { 0 };
                if !poller.local_queue().state().is_held_here() {
                    self.fairness.remote_holder(now);
                }
                AttemptOutcome::Busy
            }
            Err(Ungranted::Failed(fault)) => {
                if fault.is_unknown {
                    self.owner = Owner::fresh(&engine.client);
                }
                AttemptOutcome::Failed(poller.failed(fault))
            }
        }
    }

    /// The pause after an attempt found the lock busy.
    pub(super) fn pause(&self, poller: &PollerContext) -> Duration {
        if poller.observed.is_split {
            return backoff::split(self.took, self.splits.saturating_sub(1), fastrand::f64());
        }
        let age = poller.observed.hold_age(poller.now());
        let pause = backoff::busy(self.attempts, age, poller.observed.free_in, fastrand::f64());
        // A writer is notified of a release, and comes before readers that ask by the clock.
        let is_shared = poller.local_queue().kind.is_shared();
        if is_shared { pause.max(release_hint::SHORTEST_PAUSE) } else { pause }
    }

    /// Requests a release hint from other processes, unless one is pending.
    fn request_hint(&mut self, poller: &PollerContext, terms: Terms) {
        let keeps_out = poller.observed.is_behind_group();
        let is_pending =
            self.hint.as_ref().is_some_and(|hint| hint.is_pending(poller.now(), keeps_out));
        if !is_pending {
            let queue = &poller.queue;
            self.hint = ReleaseHint::request(&poller.engine, queue, terms.lease(), keeps_out);
        }
    }
}

impl Strategy for ByAttempts {
    fn new(engine: &Engine) -> Self {
        Self {
            owner: Owner::fresh(&engine.client),
            fairness: Fairness::default(),
            hint: None,
            is_woken: false,
            attempts: 0,
            took: Duration::ZERO,
            splits: 0,
            next_ask: Moment::ZERO,
        }
    }

    async fn ask(&mut self, poller: &mut PollerContext, terms: Terms) -> Option<Tenure> {
        let was_woken = std::mem::take(&mut self.is_woken);
        let pause = match self.attempt(poller, terms, false).await {
            AttemptOutcome::Granted(tenure) => return Some(tenure),
            AttemptOutcome::Busy => {
                let crowded = backoff::crowded(poller.pollers(), fastrand::f64());
                let pause = self.pause(poller).max(crowded);
                // No hint is requested after an attempt that a hint caused in vain, so that there
                // is at most one hint per attempt by the clock. A writer needs one to keep out
                // readers that come later.
                let keeps_out = poller.observed.is_behind_group();
                if keeps_out || pause >= release_hint::SHORTEST_PAUSE && !was_woken {
                    self.request_hint(poller, terms);
                }
                pause
            }
            AttemptOutcome::Failed(pause) => pause,
        };
        self.next_ask = poller.now().plus(pause);
        None
    }

    fn plan_next_ask(&mut self, was_freed: bool, now: Moment) -> Moment {
        if was_freed {
            let pause = self.fairness.give_way_if_due(now).then_some(fairness::WINDOW);
            self.next_ask = now.plus(pause.unwrap_or_default());
            self.is_woken = true;
        }
        self.next_ask
    }

    fn set_next_ask(&mut self, moment: Moment) {
        self.next_ask = moment;
    }

    fn note_granted(&mut self) {
        (self.attempts, self.splits, self.next_ask) = (0, 0, Moment::ZERO);
    }

    async fn signal(&mut self) -> QueueSignal {
        std::future::pending().await
    }

    fn hear(&mut self, _: &PollerContext, _: QueueSignal) -> Option<Tenure> {
        None
    }

    async fn give_way(&mut self, poller: &mut PollerContext, tenure: Tenure) -> Option<Tenure> {
        self.next_ask = Moment::ZERO;
        release::free(&poller.engine, &poller.queue, &tenure);
        None
    }

    fn is_queued(&self) -> bool {
        false
    }

    fn leave(&mut self, _: &Arc<Engine>) {}

    fn has_queue(&self, _: &Engine) -> bool {
        false
    }
}
