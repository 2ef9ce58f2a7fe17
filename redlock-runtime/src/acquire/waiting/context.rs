//! What the poller of a queue and its strategy share.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::attempt::LAST_ATTEMPT;
use crate::acquire::observed::{Observed, Span};
use crate::backend::Fault;
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::local_queue::{LocalQueue, PollerCount, QueueHandle, QueueState, Waiter};

pub(super) struct Context {
    pub(super) engine: Arc<Engine>,
    pub(super) queue: QueueHandle,
    /// What the attempts so far have observed.
    pub(super) observed: Observed,
    /// When the last answered attempt began.
    pub(super) asked_at: Moment,
    counted: PollerCount,
}

impl Context {
    /// `observed`: by an attempt of the caller.
    pub(super) fn new(engine: Arc<Engine>, queue: QueueHandle, observed: Observed) -> Self {
        // What a caller has observed by itself was answered just now.
        let asked_at = if observed.is_busy() { engine.clock().now() } else { Moment::ZERO };
        let counted = queue.count_poller();
        Self { engine, queue, observed, asked_at, counted }
    }

    pub(super) fn now(&self) -> Moment {
        self.engine.clock().now()
    }

    pub(super) fn local_queue(&self) -> &LocalQueue {
        &self.queue
    }

    /// How many callers of this process wait.
    pub(super) fn callers(&self) -> usize {
        self.local_queue().state().waiters.len()
    }

    /// How many pollers this client has.
    pub(super) fn pollers(&self) -> usize {
        self.counted.pollers()
    }

    /// How long an attempt may take: as long as a caller waits for its answer.
    pub(super) fn within(&self) -> Duration {
        let now = self.now();
        let end = self.local_queue().state().first().map_or(now, Waiter::end);
        self.engine.reply_timeout.min(end.since(now).max(LAST_ATTEMPT))
    }

    /// Awaits a command, and meanwhile times out waiters that cannot wait for its answer.
    pub(super) async fn patiently<T>(&self, command: impl Future<Output = T>) -> T {
        let mut command = std::pin::pin!(command);
        let sent = self.now();
        loop {
            let overdue = self.local_queue().state().waiters.earliest_end().plus(LAST_ATTEMPT);
            tokio::select! {
                biased;
                answer = &mut command => return answer,
                () = self.local_queue().news.notified() => {}
                () = self.engine.clock().sleep_until(overdue) => self.time_out(Some(sent)),
            }
        }
    }

    /// Times out expired waiters, once an attempt was made for them if there was time for it.
    pub(super) fn time_out_expired(&self) {
        self.time_out(None);
    }

    /// `sent`: when a command left that is not answered yet.
    fn time_out(&self, sent: Option<Moment>) {
        let now = self.now();
        let gone = {
            let mut state = self.local_queue().state();
            let is_hopeless = self.observed.fault.is_some();
            let mut gone = state.waiters.take_overdue(now, |waiter| {
                let had_its_last = self.asked_at >= waiter.end() || is_hopeless;
                had_its_last || waiter.end().plus(LAST_ATTEMPT) <= now
            });
            while self.outage_ends_wait(&mut state) <= now {
                gone.extend(state.waiters.pop_front().map(|first| (first, None)));
            }
            gone
        };
        for (waiter, before) in gone {
            let is_unasked = self.asked_at < waiter.terms.started && self.observed.fault.is_none();
            let is_unasked = is_unasked && !self.local_queue().state().is_held_here();
            match sent.map(|sent| now.since(sent)) {
                Some(silence) if is_unasked && silence >= LAST_ATTEMPT => {
                    waiter.answer(Err(self.unanswered(silence)));
                }
                _ => self.refuse(waiter, before),
            }
        }
    }

    /// The error of a waiter for whom nothing was answered: nobody knows whether the lock is taken.
    fn unanswered(&self, silence: Duration) -> LockError {
        let key = self.local_queue().key.name().to_owned();
        let message = format!("no reply within {silence:.1?}, and the caller waits no longer");
        let nodes = vec![NodeError::new("redis", NodeErrorKind::NoReply, message)];
        LockError::Unavailable { key, nodes }
    }

    /// When the first waiter gives up, if nothing is answered until then. Those after it came
    /// later.
    pub(super) fn outage_ends_wait(&self, state: &mut QueueState) -> Moment {
        let limit = self.engine.outage_wait;
        let ends = |first: &Waiter| self.observed.gives_up_at(first.terms.started, limit);
        state.first().map_or(Moment::NEVER, ends)
    }

    /// `before`: how many callers of this process stand before it.
    fn refuse(&self, waiter: Waiter, before: Option<u32>) {
        let span = Span { started: waiter.terms.started, now: self.now() };
        let attempts = self.local_queue().attempts_for(&waiter);
        let error = self.observed.error(&self.local_queue().key, span, attempts, before);
        waiter.answer(Err(error));
    }

    /// An attempt failed. Returns the pause before the next one. If retrying cannot help, the first
    /// waiter gets the error at once.
    pub(super) fn failed(&mut self, fault: Fault) -> Duration {
        let is_final = fault.is_final;
        self.observed.failed(fault, self.now());
        if is_final {
            let first = {
                let mut state = self.local_queue().state();
                state.first();
                state.waiters.pop_front()
            };
            if let Some(waiter) = first {
                self.refuse(waiter, None);
            }
            return Duration::ZERO;
        }
        backoff::failed(self.observed.failures, fastrand::f64())
    }
}
