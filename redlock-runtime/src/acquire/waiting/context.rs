//! What the poller of a queue and its strategy share.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::attempt::LAST_ATTEMPT;
use crate::acquire::endless::warn_if_endless;
use crate::acquire::observed::{CallTime, Observed};
use crate::acquire::unanswered::Unanswered;
use crate::backend::{Busy, Claim, Fault};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::local_queue::{Counted, LocalQueue, QueueHandle, QueueState, Waiter};
use crate::telemetry;

/// After so many grants in a row that came too late, a wait without an end is over.
const MOST_LATE_GRANTS: u32 = 3;

pub(super) struct PollerContext {
    pub(super) engine: Arc<Engine>,
    pub(super) queue: QueueHandle,
    /// What the attempts so far have observed.
    pub(super) observed: Observed,
    /// When the last answered attempt began.
    pub(super) asked_at: Moment,
    counted: Counted,
}

impl PollerContext {
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
        self.counted.of_all()
    }

    /// How long a command may take. A caller that waits for less time does not cut it short, which
    /// would say nothing about the server: the caller leaves, see [`Self::patiently`].
    pub(super) fn within(&self) -> Duration {
        self.engine.reply_timeout
    }

    /// How long an acquire may take that is no entry in a queue.
    pub(super) fn acquire_within(&self) -> Duration {
        self.engine.acquire_timeout
    }

    /// Lets releases of the key leave that are tasks of the background thread: an attempt that
    /// overtook them would be refused.
    pub(super) async fn let_releases_leave(&self) {
        if self.queue.has_background_release() {
            // Those that another thread has spawned by now are polled before this task as well.
            tokio::task::yield_now().await;
        }
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
                () = self.engine.clock().sleep_until(overdue) => self.time_out(Some(sent), true),
            }
        }
    }

    /// The same for a command about owners that may stand in the queue of the server, or have the
    /// lock. If the poller ends before the answer, they are cleaned up, as no other task knows of
    /// them.
    pub(super) async fn patiently_for<T>(
        &self,
        claims: &[Claim],
        command: impl Future<Output = T>,
    ) -> T {
        let unanswered = Unanswered::queued(&self.engine, claims);
        let answer = self.patiently(command).await;
        unanswered.answered();
        answer
    }

    /// Times out expired waiters, once an attempt was made for them if there was time for it.
    /// `is_queued`: the poller has an entry in the queue of the server.
    pub(super) fn time_out_expired(&self, is_queued: bool) {
        self.time_out(None, is_queued);
    }

    /// `sent`: when a command left that is not answered yet. `must_undo`: what was sent for the
    /// waiters has to be undone, so that the end of a thread waits until the poller has done that.
    fn time_out(&self, sent: Option<Moment>, must_undo: bool) {
        let now = self.now();
        let gone = {
            let mut state = self.local_queue().state();
            let is_hopeless = self.observed.fault.is_some();
            let mut gone = state.waiters.take_overdue(now, |waiter| {
                let last = waiter.end().max(waiter.terms.started);
                let had_its_last = self.asked_at >= last || is_hopeless;
                had_its_last || waiter.end().plus(LAST_ATTEMPT) <= now
            });
            while self.outage_ends_wait(&mut state) <= now {
                gone.extend(state.waiters.pop_front().map(|first| (first, None)));
            }
            gone
        };
        if must_undo && !gone.is_empty() && !self.engine.is_embedded() {
            // Before the callers learn that they have left: `main` may end then.
            self.queue.note_must_undo();
        }
        for (waiter, before) in gone {
            let error = self.error_for(&waiter, before, sent.map(|sent| now.since(sent)));
            waiter.answer(Err(error));
        }
    }

    /// The error of a waiter that leaves. `before`: how many callers of this process stand before
    /// it. `silence`: for how long a command has had no answer.
    fn error_for(
        &self,
        waiter: &Waiter,
        before: Option<u32>,
        silence: Option<Duration>,
    ) -> LockError {
        let (observed, holder_here) = (&self.observed, self.holder_here());
        let is_told = observed.fault.is_some() || holder_here.is_some();
        let is_unasked = !is_told && self.asked_at < waiter.terms.started;
        if let Some((answer, at)) = waiter.refused.as_ref().filter(|_| is_unasked) {
            let mut observed = Observed::default();
            observed.busy(answer.clone(), *at);
            return self.refusal(&observed, waiter, before);
        }
        let is_ours = !is_told && observed.is_granted();
        match silence {
            Some(silence) if is_unasked && (silence >= LAST_ATTEMPT || !observed.is_busy()) => {
                self.unanswered(silence)
            }
            Some(silence) if is_ours => self.unanswered(silence),
            _ => {
                let mut error = self.refusal(observed, waiter, before);
                if let LockError::Timeout { holder: holder @ None, .. } = &mut error {
                    *holder = holder_here;
                }
                error
            }
        }
    }

    /// The owner that has the lock in this process, as far as the process knows.
    fn holder_here(&self) -> Option<String> {
        let (queue, state) = (self.local_queue(), self.local_queue().state());
        let hold = state.holder.as_ref().filter(|hold| !hold.is_over())?;
        let claim = hold.claims().find(|claim| claim.key == *queue.key())?;
        Some(claim.owner.as_str().to_owned())
    }

    /// The error of a waiter for whom nothing was answered: nobody knows whether the lock is taken.
    fn unanswered(&self, silence: Duration) -> LockError {
        let key = self.local_queue().key().name().to_owned();
        let message = format!("no reply within {silence:.1?}, and the caller waits no longer");
        let nodes = vec![NodeError::new("redis", NodeErrorKind::NoReply, message)];
        LockError::Unavailable { key, nodes }
    }

    /// Another owner has the lock. A lock that does not end by itself is told with the first answer
    /// that shows it, not with each.
    pub(super) fn busy(&mut self, answer: Busy) {
        let was_endless = self.observed.is_endless();
        self.observed.busy(answer, self.now());
        if self.observed.is_endless() && !was_endless {
            let first = self.local_queue().state().first().map(|waiter| waiter.terms);
            let template = first.map_or(telemetry::PROGRAMMATIC, |terms| terms.template);
            warn_if_endless(&self.engine, self.local_queue().key(), template, &self.observed);
        }
    }

    /// When the first waiter gives up, if nothing is answered until then. Those after it came
    /// later.
    pub(super) fn outage_ends_wait(&self, state: &mut QueueState) -> Moment {
        let limit = self.engine.outage_wait;
        let ends = |first: &Waiter| self.observed.gives_up_at(first.terms.started, limit);
        state.first().map_or(Moment::NEVER, ends)
    }

    /// The error of a waiter that has not got the lock as this was `observed`.
    fn refusal(&self, observed: &Observed, waiter: &Waiter, before: Option<u32>) -> LockError {
        let time = CallTime { started: waiter.terms.started, now: self.now() };
        let attempts = self.local_queue().attempts_for(waiter);
        observed.error(self.local_queue().key(), time, attempts, before)
    }

    /// The lock was granted to a waiter after `took`, with nothing left of its lease. The waiter
    /// stays the first: the next answer may come in time. If it never does, the end of the wait
    /// tells the caller so; a wait without an end is over after a few such grants.
    pub(super) fn too_late(&mut self, mut waiter: Waiter, took: Duration) {
        self.observed.too_late(took, waiter.terms.expire);
        waiter.late_grants += 1;
        if waiter.end() == Moment::NEVER && waiter.late_grants >= MOST_LATE_GRANTS {
            let error = self.refusal(&self.observed, &waiter, None);
            waiter.answer(Err(error));
        } else {
            self.queue.put_back(waiter);
        }
    }

    /// An attempt failed. Returns the pause before the next one. If retrying cannot help, the first
    /// waiter gets the error at once.
    pub(super) fn failed(&mut self, fault: Fault) -> Duration {
        let is_final = fault.is_final;
        self.observed.failed(fault, self.now());
        if is_final {
            let first = self.local_queue().state().pop_first();
            if let Some(waiter) = first {
                let error = self.refusal(&self.observed, &waiter, None);
                waiter.answer(Err(error));
            }
            return Duration::ZERO;
        }
        backoff::failed(self.observed.failures, fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;
    use crate::hold::Terms;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::tests::fake::{client_at, fake};
    use crate::thread_exit::Unsent;

    /// Its answer may grant the lock to nobody.
    #[tokio::test]
    async fn the_end_of_a_thread_waits_for_a_command_whose_caller_has_timed_out() {
        let (_, fake) = fake();
        let redlock = client_at(fake, 100, false);
        let engine = redlock.engine();
        let queue = engine.local_queue(&LockKey::new("", "k").unwrap(), Kind::Exclusive);
        let poller = PollerContext::new(Arc::clone(engine), queue.another(), Observed::default());
        let terms = Terms::of_plain_call(Duration::from_secs(30), engine.clock().now());
        let (reply, answer) = oneshot::channel();
        queue.enter(Waiter::new(1, terms, Moment::ZERO, reply), 0);
        assert!(queue.state().left.is_none());
        tokio::select! {
            biased;
            () = poller.patiently(pending()) => {}
            ended = answer => assert!(ended.unwrap().is_err_and(|error| error.is_unavailable())),
        }
        let kept = || queue.state().left.as_ref()?.unsent.as_ref().map(Unsent::id);
        let first = kept();
        assert!(first.is_some());
        queue.note_must_undo();
        assert_eq!(kept(), first);
    }
}
