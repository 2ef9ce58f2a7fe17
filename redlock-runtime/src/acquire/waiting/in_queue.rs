//! Waiting in the queue of a server, which hands a released lock to the next process.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use super::by_attempts::{AttemptOutcome, ByAttempts};
use super::context::PollerContext;
use super::local_holder::LocalHolder;
use super::strategy::Strategy;
use crate::backend::{
    Busy, Claim, Enqueued, Fault, FencingTokens, FifoQueue, Look, MAX_RESERVE, Position,
    QueueDenial, QueueSignal, Rotated, Subscription,
};
use crate::backoff;
use crate::clock::Moment;
use crate::denial::Denial;
use crate::engine::Engine;
use crate::fencing::FencingToken;
use crate::hold::{ConfirmedLease, SMALL_RESERVE, Tenure, Terms};
use crate::owner::Owner;
use crate::{release, telemetry};

/// An entry in the queue of the server.
struct QueueEntry {
    claim: Claim,
    reserve: u32,
    subscription: Subscription,
    /// How many were ahead of it when it was seen last.
    ahead: u32,
    /// When the last command was sent whose answer showed the owner waiting: a hand-over can only
    /// be later.
    not_before: Moment,
    /// A hand-over with a lower fencing token is an old one.
    token_floor: FencingToken,
    /// When to check the entry if no signal comes.
    look_at: Moment,
    /// The subscription has broken since the last answer.
    is_disturbed: bool,
}

pub(super) struct InQueue {
    entry: Option<QueueEntry>,
    /// Makes attempts where no other process wants the lock, or where the server does not let us
    /// queue.
    attempts: ByAttempts,
    /// Whether the queue was refused to this poller, so that it makes attempts for a while instead.
    denial: Denial,
}

/// An owner that is about to enter the queue.
struct QueueCandidate {
    claim: Claim,
    reserve: u32,
    subscription: Subscription,
}

impl QueueCandidate {
    fn new(poller: &PollerContext, queue: &dyn FifoQueue, terms: Terms) -> Self {
        let owner = Owner::fresh(&poller.engine.client);
        let local = poller.local_queue();
        let (key, kind) = (local.key().clone(), local.kind);
        let claim = Claim { key, owner, expire: terms.lease(), kind };
        let subscription = queue.subscribe(&claim);
        // A lock with a `min_hold` is not passed on, and what it retains gives no tokens back.
        let is_passed_on = poller.callers() > 1 && terms.min_hold.is_zero();
        let reserve = if is_passed_on { MAX_RESERVE } else { SMALL_RESERVE };
        Self { claim, reserve, subscription }
    }

    fn enqueued(self, not_before: Moment, position: Position) -> QueueEntry {
        let Self { claim, reserve, subscription } = self;
        let Position { ahead, token_floor, .. } = position;
        QueueEntry {
            claim,
            reserve,
            subscription,
            ahead,
            not_before,
            token_floor,
            look_at: not_before,
            is_disturbed: false,
        }
    }
}

impl InQueue {
    /// Acquires the lock, or enters the queue.
    async fn enqueue(
        &mut self,
        poller: &mut PollerContext,
        terms: Terms,
        queue: &dyn FifoQueue,
    ) -> Option<Tenure> {
        telemetry::acquire_sent(terms.template);
        poller.local_queue().count_attempt();
        let within = poller.within();
        let candidate = QueueCandidate::new(poller, queue, terms);
        let engine = Arc::clone(&poller.engine);
        // The time is read before the command leaves: the lock may be handed over at any time after
        // it.
        let sent = poller.now();
        let answer = queue.enqueue(&candidate.claim, candidate.reserve, within);
        match poller.patiently_for(from_ref(&candidate.claim), answer).await {
            Ok(Enqueued::Granted(fencing_tokens)) => {
                poller.local_queue().state().spend_contention_credit();
                let confirmed = ConfirmedLease { sent, lease: candidate.claim.expire };
                Some(Tenure::new(candidate.claim, confirmed, fencing_tokens).alone())
            }
            Ok(Enqueued::Waiting { holder, position }) => {
                let entry = candidate.enqueued(sent, position);
                self.plan_look(poller, entry, holder, position);
                None
            }
            Ok(Enqueued::Unknown) => None,
            Err(fault) => {
                if fault.is_unknown {
                    release::clean_up(&engine, candidate.claim, true);
                }
                self.failed(poller, fault);
                None
            }
        }
    }

    /// Checks the entry, as a signal may have been missed. `Err`: the entry no longer exists.
    async fn look(&mut self, poller: &mut PollerContext) -> Result<Option<Tenure>, ()> {
        let engine = Arc::clone(&poller.engine);
        let mut entry = self.entry.take().ok_or(())?;
        let Some(queue) = engine.fifo_queue() else {
            release::leave(&engine, entry.claim, Some(entry.ahead));
            return Err(());
        };
        poller.local_queue().count_attempt();
        let first = poller.local_queue().state().first().map(|waiter| waiter.terms);
        telemetry::acquire_sent(first.map_or(telemetry::PROGRAMMATIC, |terms| terms.template));
        let within = poller.within();
        let local_holder = LocalHolder::of(poller.local_queue());
        let sent = poller.now();
        let look = Look { ahead: entry.ahead, removes_dead: !entry.is_disturbed };
        let answer = queue.look(&entry.claim, entry.reserve, look, within);
        match poller.patiently_for(from_ref(&entry.claim), answer).await {
            Ok(Enqueued::Granted(fencing_tokens)) => {
                local_holder.learn(&engine, poller.local_queue(), None);
                let confirmed = ConfirmedLease { sent, lease: entry.claim.expire };
                let tenure = Tenure::new(entry.claim, confirmed, fencing_tokens);
                // A hold that an answer grants begins when the command was sent.
                return Ok(Some(tenure.handed_over(sent, poller.callers())));
            }
            Ok(Enqueued::Waiting { holder, position }) => {
                local_holder.learn(&engine, poller.local_queue(), holder.as_deref());
                (entry.not_before, entry.token_floor) = (sent, position.token_floor);
                entry.is_disturbed = false;
                if position.is_outdated {
                    release::leave(&engine, entry.claim, Some(position.ahead));
                    return Err(());
                }
                self.plan_look(poller, entry, holder, position);
            }
            // The lock was handed over but the signal came too late, or the queue was lost. The
            // next owner enqueues.
            Ok(Enqueued::Unknown) => return Err(()),
            Err(fault) if self.note_denial(poller, &fault) => {
                release::leave(&engine, entry.claim, Some(entry.ahead));
                return Err(());
            }
            Err(fault) => {
                let pause = poller.failed(fault);
                entry.look_at = poller.now().plus(pause);
                self.keep_entry(poller, entry);
            }
        }
        Ok(None)
    }

    /// Makes an attempt as if no process waited in the queue.
    async fn attempt(
        &mut self,
        poller: &mut PollerContext,
        terms: Terms,
        has_queue: bool,
    ) -> Option<Tenure> {
        let pause = match self.attempts.attempt(poller, terms, has_queue).await {
            AttemptOutcome::Granted(tenure) => return Some(tenure),
            AttemptOutcome::Busy => {
                let mut state = poller.local_queue().state();
                // Another process has the lock: the poller enqueues at once.
                let is_news = has_queue && !state.is_held_here() && state.note_contention();
                drop(state);
                if is_news { Duration::ZERO } else { self.attempts.pause(poller) }
            }
            AttemptOutcome::Failed(pause) => pause,
        };
        self.attempts.set_next_ask(poller.now().plus(pause));
        None
    }

    /// Decides when to check the entry.
    fn plan_look(
        &mut self,
        poller: &mut PollerContext,
        mut entry: QueueEntry,
        holder: Option<String>,
        position: Position,
    ) {
        let now = poller.now();
        let Position { free_in, ahead, is_signalled, .. } = position;
        poller.busy(Busy::decided(holder, free_in));
        poller.observed.ahead = Some(ahead);
        let pause = if is_signalled {
            backoff::queued(free_in, ahead)
        } else {
            backoff::unsignalled(poller.observed.hold_age(now), free_in, ahead, fastrand::f64())
        };
        (entry.ahead, entry.look_at) = (ahead, now.plus(pause));
        self.keep_entry(poller, entry);
    }

    /// Keeps the entry. Other processes compete for the lock.
    fn keep_entry(&mut self, poller: &PollerContext, entry: QueueEntry) {
        poller.engine.queue_allowed();
        self.denial.allowed();
        poller.local_queue().state().note_contention();
        self.entry = Some(entry);
    }

    fn failed(&mut self, poller: &mut PollerContext, fault: Fault) {
        let pause =
            if self.note_denial(poller, &fault) { Duration::ZERO } else { poller.failed(fault) };
        self.attempts.set_next_ask(poller.now().plus(pause));
    }

    /// Notes that the server refuses to let us queue, if the fault says so: then this poller makes
    /// attempts, and its callers do not get the fault. Returns whether the fault is such a refusal.
    fn note_denial(&mut self, poller: &PollerContext, fault: &Fault) -> bool {
        let denial = QueueDenial::of(fault);
        match denial {
            Some(QueueDenial::Forbidden) => poller.engine.queue_denied(),
            Some(QueueDenial::Refused) => drop(self.denial.denied(poller.now())),
            None => {}
        }
        denial.is_some()
    }

    /// The lock was handed over after `entry.not_before`: the lease is counted from there.
    fn handed_over(
        poller: &PollerContext,
        entry: QueueEntry,
        fencing_tokens: FencingTokens,
        lease: Duration,
    ) -> Tenure {
        let lease = lease.min(entry.claim.expire);
        let confirmed = ConfirmedLease { sent: entry.not_before, lease };
        let tenure = Tenure::new(entry.claim, confirmed, fencing_tokens);
        let tenure = tenure.signalled(poller.now(), poller.callers());
        let is_certain = poller.engine.fifo_queue().is_none_or(FifoQueue::is_signal_certain);
        if is_certain { tenure } else { tenure.doubted() }
    }
}

impl Strategy for InQueue {
    fn new(engine: &Engine) -> Self {
        Self { entry: None, attempts: ByAttempts::new(engine), denial: Denial::default() }
    }

    async fn ask(&mut self, poller: &mut PollerContext, terms: Terms) -> Option<Tenure> {
        // A poller that has lost its entry makes a new attempt in the same turn: the `wait` of its
        // callers may end before another turn.
        if self.is_queued()
            && let Ok(granted) = self.look(poller).await
        {
            return granted;
        }
        let now = poller.now();
        let is_contended = {
            let state = poller.local_queue().state();
            state.is_contended() && !state.is_taken_here(now)
        };
        let engine = Arc::clone(&poller.engine);
        match engine.fifo_queue() {
            Some(queue) if is_contended && !self.denial.lasts(|| now) => {
                self.enqueue(poller, terms, queue).await
            }
            queue => self.attempt(poller, terms, queue.is_some()).await,
        }
    }

    fn plan_next_ask(&mut self, was_freed: bool, now: Moment) -> Moment {
        match &self.entry {
            Some(entry) => entry.look_at,
            None => self.attempts.plan_next_ask(was_freed, now),
        }
    }

    fn set_next_ask(&mut self, moment: Moment) {
        self.attempts.set_next_ask(moment);
    }

    fn note_granted(&mut self) {
        self.attempts.note_granted();
    }

    async fn signal(&mut self) -> QueueSignal {
        match &mut self.entry {
            Some(entry) => entry.subscription.signal().await,
            None => std::future::pending().await,
        }
    }

    fn hear(&mut self, poller: &PollerContext, signal: QueueSignal) -> Option<Tenure> {
        let mut entry = self.entry.take()?;
        match signal {
            QueueSignal::HandedOver { fencing_tokens, lease }
                if fencing_tokens.first >= entry.token_floor =>
            {
                Some(Self::handed_over(poller, entry, fencing_tokens, lease))
            }
            // The signal is about a hand-over from before the last answer, or the connection was
            // disturbed: the entry is checked at once.
            QueueSignal::HandedOver { .. } | QueueSignal::Disturbed => {
                entry.look_at = Moment::ZERO;
                entry.is_disturbed = true;
                self.keep_entry(poller, entry);
                None
            }
        }
    }

    async fn give_way(&mut self, poller: &mut PollerContext, mut tenure: Tenure) -> Option<Tenure> {
        let engine = Arc::clone(&poller.engine);
        let terms = poller.local_queue().state().first().map(|waiter| waiter.terms);
        let terms = terms.filter(|terms| tenure.may_become(terms.lease()));
        if terms.is_some() && tenure.pass_for_claim(poller.now()) {
            return Some(tenure);
        }
        // If the poller has an entry, it releases the lock, which the server hands to the queue. If
        // it has none, it rotates the queue.
        let queue = engine.fifo_queue().filter(|_| self.entry.is_none());
        let (Some(queue), Some(terms)) = (queue, terms) else {
            return self.attempts.give_way(poller, tenure).await;
        };
        let next = QueueCandidate::new(poller, queue, terms);
        let within = poller.within();
        let sent = poller.now();
        let tokens = tenure.drawn();
        let rotate = queue.rotate(&tenure.claim, tokens, &next.claim, next.reserve, within);
        let claims = [tenure.claim.clone(), next.claim.clone()];
        let answer = poller.patiently_for(&claims, rotate).await;
        let is_over = matches!(answer, Ok(Rotated::Passed { .. } | Rotated::Lost(_)));
        if is_over && tenure.leftovers().was_cut {
            // The first try of the acquisition may still arrive, and acquire the lock for an
            // abandoned owner.
            release::clean_up(&engine, tenure.claim.clone(), false);
        }
        match answer {
            Ok(Rotated::Kept(fencing_tokens)) => {
                let expire = next.claim.expire;
                let confirmed = ConfirmedLease { sent, lease: expire };
                return Some(tenure.kept(expire, confirmed, fencing_tokens));
            }
            Ok(Rotated::Passed { holder, position }) => {
                let entry = next.enqueued(sent, position);
                self.plan_look(poller, entry, holder, position);
            }
            // Either the lease ended just before the command, or the client library has sent the
            // command twice. In the second case its first run has enqueued `next`, so `next` leaves
            // the queue. The poller starts again.
            Ok(Rotated::Lost(_)) => {
                release::leave(&engine, next.claim, None);
                self.attempts.set_next_ask(Moment::ZERO);
            }
            Err(fault) => {
                if fault.is_unknown {
                    release::clean_up(&engine, next.claim, true);
                }
                // The script makes the lease longer first: it may be longer even if the script
                // failed after that.
                tenure.note_unanswered(sent);
                release::free(&engine, &poller.queue, &tenure);
                self.failed(poller, fault);
            }
        }
        None
    }

    fn is_queued(&self) -> bool {
        self.entry.is_some()
    }

    fn leave(&mut self, engine: &Arc<Engine>) {
        if let Some(entry) = self.entry.take() {
            release::leave(engine, entry.claim, Some(entry.ahead));
        }
    }

    fn has_queue(&self, engine: &Engine) -> bool {
        engine.fifo_queue().is_some()
    }
}
