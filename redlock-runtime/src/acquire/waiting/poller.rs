//! The poller of a queue: asks Redis on behalf of all who wait for one key in this process, and
//! sends those home whose time is up.

use std::sync::Arc;
use std::time::Duration;

use super::fairness::Fairness;
use super::fifo::QueueEntry;
use super::local_holder::LocalHolder;
use super::release_hint::ReleaseHint;
use super::{fairness, release_hint};
use crate::acquire::{LAST_ATTEMPT, Observed, Outcome, Terms, ask, stopped};
use crate::backend::Claim;
use crate::clock::Moment;
use crate::denial::Denial;
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::Tenure;
use crate::local_queue::{PollerState, QueueHandle, QueueState, RestReason, Waiter};
use crate::owner::Owner;
use crate::{background_thread, backoff};

/// How long a poller stays after those it served: they often come back.
const LINGER: Duration = Duration::from_secs(1);

/// Calls the poller of a queue that has none.
pub(crate) fn call(engine: &Arc<Engine>, handle: QueueHandle) -> Result<(), LockError> {
    let poller = Poller::new(Arc::clone(engine), handle);
    engine.executor().spawn(poller.serve())
}

pub(crate) struct Poller {
    pub(crate) engine: Arc<Engine>,
    pub(crate) handle: QueueHandle,
    pub(crate) seen: Observed,
    /// The place in line, where the backend keeps one.
    pub(crate) stand: Option<QueueEntry>,
    /// Where there is no line: a release elsewhere will be told of.
    notice: Option<ReleaseHint>,
    /// The next question follows a release, not the clock.
    is_woken: bool,
    /// The line did not work for this poller: it asks now and then instead, for a while.
    pub(crate) queue_denial: Denial,
    /// Asks with it until it is granted, or an outcome is unknown.
    owner: Owner,
    fairness: Fairness,
    /// Questions since the last grant.
    pub(crate) polls: u32,
    /// Not before this moment is the next question worth it.
    pub(crate) ask_at: Moment,
    /// When the last question was asked that has been answered.
    asked_at: Moment,
    lingers_until: Moment,
}

/// What a poller does next.
enum NextStep {
    /// A holder has left its tenure here, for those who wait.
    GiveWay(Tenure),
    /// Nobody waits any more.
    LeaveLine(QueueEntry),
    Ask(Terms),
    RestReason(Moment),
    Retire,
}

impl Poller {
    fn new(engine: Arc<Engine>, handle: QueueHandle) -> Self {
        Self {
            owner: Owner::fresh(&engine.client_name),
            engine,
            handle,
            seen: Observed::default(),
            stand: None,
            notice: None,
            is_woken: false,
            queue_denial: Denial::default(),
            fairness: Fairness::default(),
            polls: 0,
            ask_at: Moment::ZERO,
            asked_at: Moment::ZERO,
            lingers_until: Moment::ZERO,
        }
    }

    async fn serve(mut self) {
        loop {
            self.dismiss(self.now());
            match self.background_task() {
                NextStep::GiveWay(tenure) => self.give_way(tenure).await,
                NextStep::LeaveLine(stand) => stand.leave(&self.engine),
                NextStep::Ask(terms) => self.ask(terms).await,
                NextStep::RestReason(until) => self.rest(until).await,
                NextStep::Retire => return,
            }
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.engine.clock().now()
    }

    fn background_task(&mut self) -> NextStep {
        let now = self.now();
        let queue = Arc::clone(&self.handle.queue);
        let mut state = queue.state();
        state.poller = PollerState::Busy;
        if let Some(tenure) = state.returned.take() {
            return NextStep::GiveWay(*tenure);
        }
        let Some(terms) = state.first().map(|waiter| waiter.terms) else {
            if let Some(stand) = self.stand.take() {
                return NextStep::LeaveLine(stand);
            }
            state.left = None;
            if now >= self.lingers_until {
                state.poller = PollerState::Absent;
                return NextStep::Retire;
            }
            return rest(&mut state, self.lingers_until, RestReason::Idle);
        };
        // Whatever is asked from here on is asked for others.
        state.left = None;
        let (until, why) = self.rest_until(&mut state, now);
        let until = until.min(state.waiters.earliest_end());
        if now < until { rest(&mut state, until, why) } else { NextStep::Ask(terms) }
    }

    /// Until when there is nothing to ask, and why.
    fn rest_until(&mut self, state: &mut QueueState, now: Moment) -> (Moment, RestReason) {
        let was_freed = std::mem::take(&mut state.is_freed);
        if state.ends_with_news() {
            let pause = match self.engine.fifo_queue() {
                Some(_) => backoff::HOLDER_HERE,
                None => backoff::HOLDER_HERE_WITHOUT_LINE,
            };
            let since = self.asked_at.max(state.taken_since(now));
            return (since.plus(pause), RestReason::TakenHere);
        }
        if let Some(answered_by) = state.question_ends(now) {
            return (answered_by, RestReason::TakenHere);
        }
        if let Some(stand) = &self.stand {
            return (stand.look_at, RestReason::Waits);
        }
        if was_freed {
            let pause = self.fairness.gives_way(now).then_some(fairness::WINDOW);
            self.ask_at = now.plus(pause.unwrap_or_default());
            self.is_woken = true;
        }
        (self.ask_at, RestReason::Waits)
    }

    async fn rest(&mut self, until: Moment) {
        let clock = self.engine.clock();
        let queue = Arc::clone(&self.handle.queue);
        let call = tokio::select! {
            biased;
            call = QueueEntry::called(&mut self.stand) => Some(call),
            () = queue.news.notified() => None,
            () = clock.sleep_until(until) => None,
        };
        if let Some(call) = call {
            self.hear(call).await;
        }
    }

    async fn ask(&mut self, terms: Terms) {
        let now = self.now();
        // Who has lost its place asks anew in the same turn: it may be the last one.
        if self.stand.is_none() || !self.look().await {
            self.ask_anew(terms).await;
        }
        self.asked_at = now;
    }

    async fn ask_anew(&mut self, terms: Terms) {
        let now = self.now();
        let is_contended = {
            self.handle.queue.asks();
            let state = self.handle.queue.state();
            state.is_contended() && !state.is_taken_here(now)
        };
        let within = self.within(now);
        let is_denied = self.queue_denial.lasts(|| now);
        if is_contended && !is_denied && self.engine.fifo_queue().is_some() {
            self.join(terms, within).await;
        } else {
            self.poll(terms, within).await;
        }
    }

    /// How long a question may take: as long as somebody waits for its answer.
    pub(crate) fn within(&self, now: Moment) -> Duration {
        let end = self.handle.queue.state().first().map_or(now, Waiter::end);
        self.engine.reply_timeout.min(end.since(now).max(LAST_ATTEMPT))
    }

    /// Asks whether the lock is free, as everybody else does.
    async fn poll(&mut self, terms: Terms, within: Duration) {
        self.polls = self.polls.saturating_add(1);
        let was_woken = std::mem::take(&mut self.is_woken);
        let key = self.handle.queue.key.clone();
        let claim = Claim { key, owner: self.owner.clone(), expire: terms.expire };
        let engine = Arc::clone(&self.engine);
        let holder_here = LocalHolder::of(&self.handle.queue);
        let question = ask(&engine, &*engine.backend, &claim, terms.template, within);
        let outcome = self.patiently(question).await;
        let now = self.now();
        let pause = match outcome {
            Outcome::Granted(tenure) => {
                holder_here.learn(&self.handle.queue, None);
                // An owner value is used for one tenure.
                self.owner = Owner::fresh(&engine.client_name);
                self.fairness.granted(now);
                self.notice = None;
                return self.settle(tenure).await;
            }
            Outcome::Busy { holder, free_in, is_split, is_spent } => {
                if is_spent {
                    self.owner = Owner::fresh(&engine.client_name);
                }
                // Of several servers, one alone decides nothing.
                if engine.fifo_queue().is_some() {
                    holder_here.learn(&self.handle.queue, Some(&holder));
                }
                self.seen.busy(holder, free_in, now);
                self.seen.is_split = is_split;
                let pause = self.stranger(now);
                // Not behind a notice that came in vain: so there is at most one to each question
                // that the clock asks.
                if pause >= release_hint::WORTH_IT && !was_woken {
                    self.await_release(terms);
                }
                pause
            }
            Outcome::Failed(fault) => {
                if fault.is_unknown {
                    self.owner = Owner::fresh(&engine.client_name);
                }
                self.failed(fault)
            }
        };
        self.ask_at = now.plus(pause);
    }

    /// Wants to be told when somebody elsewhere lets go, where there is no line for that.
    fn await_release(&mut self, terms: Terms) {
        let now = self.now();
        let is_due = self.notice.as_ref().is_some_and(|notice| notice.is_due(now));
        if !is_due && self.engine.backend.fifo_queue().is_none() {
            self.notice = ReleaseHint::ask(&self.engine, &self.handle.queue, terms.expire);
        }
    }

    /// Somebody elsewhere has the lock. Returns the pause before the next question.
    fn stranger(&mut self, now: Moment) -> Duration {
        let mut state = self.handle.queue.state();
        if !state.is_held_here() {
            self.fairness.stranger(now);
            if self.engine.fifo_queue().is_some() && state.contend() {
                // To the line, at once.
                return Duration::ZERO;
            }
        }
        drop(state);
        if self.seen.is_split {
            backoff::split(fastrand::f64())
        } else {
            let age = self.seen.hold_age(now);
            backoff::busy(self.polls, age, self.seen.free_in, fastrand::f64())
        }
    }

    /// Returns the pause before the next question. What time cannot mend is told at once.
    pub(crate) fn failed(&mut self, fault: crate::backend::Fault) -> Duration {
        let is_final = fault.is_final;
        self.seen.failed(fault);
        if is_final {
            let first = {
                let mut state = self.handle.queue.state();
                state.first();
                state.waiters.pop_front()
            };
            if let Some(waiter) = first {
                self.refuse(waiter);
            }
            return Duration::ZERO;
        }
        backoff::failed(self.seen.failures, fastrand::f64())
    }

    /// Sees a command through, and those home meanwhile who cannot wait for its answer.
    pub(crate) async fn patiently<T>(&self, command: impl Future<Output = T>) -> T {
        let mut command = std::pin::pin!(command);
        loop {
            let overdue = self.handle.queue.state().waiters.earliest_end().plus(LAST_ATTEMPT);
            tokio::select! {
                biased;
                answer = &mut command => return answer,
                () = self.handle.queue.news.notified() => {}
                () = self.engine.clock().sleep_until(overdue) => self.dismiss(self.now()),
            }
        }
    }

    /// Whoever waits in line once often does so again.
    pub(crate) fn linger(&mut self) {
        if self.engine.fifo_queue().is_some() {
            self.lingers_until = self.now().plus(LINGER);
        }
    }

    /// Tells those whose time is up, after one last question where there was time for it.
    fn dismiss(&self, now: Moment) {
        let gone = {
            let mut state = self.handle.queue.state();
            let is_hopeless = self.seen.fault.is_some();
            state.waiters.take_overdue(now, |waiter| {
                let had_its_last = self.asked_at >= waiter.end() || is_hopeless;
                had_its_last || waiter.end().plus(LAST_ATTEMPT) <= now
            })
        };
        for waiter in gone {
            self.refuse(waiter);
        }
    }

    fn refuse(&self, waiter: Waiter) {
        let time = self.now().since(waiter.terms.started);
        let attempts = self.handle.queue.asked_for(&waiter);
        let error = self.seen.error(&self.handle.queue.key, time, attempts);
        waiter.answer(Err(error));
    }
}

fn rest(state: &mut QueueState, until: Moment, why: RestReason) -> NextStep {
    state.poller = PollerState::Resting { until, why };
    NextStep::RestReason(until)
}

/// A poller that ends early: by a panic, or with the runtime of the caller that needed it first.
impl Drop for Poller {
    fn drop(&mut self) {
        if let Some(stand) = self.stand.take() {
            stand.leave(&self.engine);
        }
        let (returned, is_needed) = {
            let mut state = self.handle.queue.state();
            if state.poller == PollerState::Absent {
                return;
            }
            let is_needed = state.first().is_some() && !std::thread::panicking();
            (state.returned.take(), is_needed)
        };
        if let Some(tenure) = returned {
            crate::handoff::free(&self.engine, &tenure);
        }
        // Asked for before there is an heir: one that cannot be employed would want an heir, too.
        if let Some(keeper) = is_needed.then(background_thread::handle).and_then(Result::ok) {
            let heir = Self::new(Arc::clone(&self.engine), self.handle.another());
            drop(keeper.spawn(heir.serve()));
            return;
        }
        let orphans = {
            let mut state = self.handle.queue.state();
            (state.poller, state.left) = (PollerState::Absent, None);
            std::mem::take(&mut state.waiters)
        };
        for waiter in orphans.into_iter() {
            waiter.answer(Err(stopped()));
        }
    }
}
