//! A direct attempt: a caller sends it without the poller of its queue.

mod refused;

use std::sync::Arc;
use std::time::Duration;

use super::attempt::attempt;
use super::observed::Observed;
use crate::backend::{Claim, FifoQueue, LockBackend};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::{Ownership, grant};
use crate::hold::{Begin, Terms};
use crate::local_queue::{DirectAttemptGuard, QueueHandle};

pub(super) struct DirectAttempt {
    pub(super) queue: QueueHandle,
    /// `None`: other callers may make attempts at the same time.
    pub(super) guard: Option<DirectAttemptGuard>,
    /// When this attempt begins. Its call may have begun long before.
    pub(super) begun: Moment,
    /// How many attempts its caller has made with this one.
    pub(super) number: u32,
}

/// How many attempts a caller makes while this client has no connection for signals. To make that
/// connection takes some round trips: a lock that is held for less is free again before, and no
/// connection is needed.
const UNCONNECTED_ATTEMPTS: u32 = 3;

/// What came of a direct attempt.
pub(super) enum DirectOutcome {
    Granted(Ownership),
    /// For a reason that was observed and that may pass.
    Refused(DirectAttempt, Observed),
}

impl DirectAttempt {
    pub(super) fn first(
        queue: QueueHandle,
        guard: Option<DirectAttemptGuard>,
        begun: Moment,
    ) -> Self {
        Self { queue, guard, begun, number: 1 }
    }

    /// The next attempt after a refusal, begun now.
    pub(super) fn again(self, engine: &Engine) -> Self {
        Self { begun: engine.clock().now(), number: self.number + 1, ..self }
    }

    /// Is another attempt due before the caller, whose wait is over at `end`, enters the queue?
    pub(super) fn may_repeat(
        &self,
        engine: &Engine,
        terms: &Terms,
        observed: &Observed,
        end: Moment,
    ) -> bool {
        let begun = engine.clock().now();
        let is_unconnected = engine.fifo_queue().is_some_and(FifoQueue::is_unconnected);
        let may_repeat = is_unconnected && self.number < UNCONNECTED_ATTEMPTS && begun < end;
        may_repeat
            && observed.is_busy()
            && !observed.is_endless()
            && !engine.shutdowns().refuse(terms.shutdowns_before)
            && self.others_wait_until(begun.plus(begun.since(self.begun)))
    }

    /// Do callers that came meanwhile wait for this one until then? The next answer may take as
    /// long as the last one.
    fn others_wait_until(&self, answered: Moment) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.lasts_until(answered))
    }

    /// Notes that another process competes for the lock, if an attempt was refused. Only refused
    /// ones are repeated.
    pub(super) fn note_contention(&self, engine: &Engine, observed: &Observed) {
        if (observed.is_busy() || self.number > 1) && engine.fifo_queue().is_some() {
            self.queue.state().note_contention();
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an async function would hold `self` twice")]
    pub(super) fn make(
        self,
        engine: &Arc<Engine>,
        terms: &Terms,
        claim: &Claim,
        within: Duration,
    ) -> impl Future<Output = Result<DirectOutcome, LockError>> + Send {
        async move {
            // A release that the background thread has still to send must not be overtaken: this
            // attempt is sent after it.
            if let Some(route) = engine.route()
                && !self.queue.has_background_release()
            {
                let found =
                    self.attempt_over((engine, &*route), terms, claim, within, true).await?;
                return Ok(self.outcome(found));
            }
            // Boxed to keep this future small: only the first calls of a runtime take this path.
            Box::pin(self.make_on_executor(engine, *terms, claim.clone(), within)).await
        }
    }

    pub(super) fn outcome(self, found: Result<Ownership, Observed>) -> DirectOutcome {
        match found {
            Ok(ownership) => DirectOutcome::Granted(ownership),
            Err(observed) => DirectOutcome::Refused(self, observed),
        }
    }

    /// Makes the attempt over `route`. The inner `Err` says what was observed if the lock was not
    /// granted. `is_polled`: the caller itself polls this future.
    pub(super) async fn attempt_over(
        &self,
        (engine, route): (&Arc<Engine>, &dyn LockBackend),
        terms: &Terms,
        claim: &Claim,
        within: Duration,
        is_polled: bool,
    ) -> Result<Result<Ownership, Observed>, LockError> {
        // Counted until the caller has looked for a shutdown. A task that sends the command for its
        // caller is counted by itself.
        let pending = is_polled.then(|| engine.pending.begin());
        // It looks for a shutdown after that: one that has not counted this call keeps it from
        // sending.
        engine.check_shutdown(terms.shutdowns_before, claim.key.name())?;
        // A task that sends the command for its caller may have begun later.
        let sent = if is_polled { self.begun } else { engine.clock().now() };
        let tenure = match attempt(engine, route, claim, terms.template, sent, within).await {
            Ok(tenure) => tenure,
            Err(why) => return self.not_granted(engine, terms, claim, why).map(Err),
        };
        let begin = Begin { at: tenure.confirmed.sent, is_taken: is_polled };
        match grant(engine, &self.queue, tenure, *terms, self.number, begin) {
            Ok(granted) => {
                let ownership = Ownership::new(engine, self.queue.another(), granted);
                Ok(Ok(ownership.with_pending(pending)))
            }
            Err(why) => Self::not_held(terms, why).map(Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;
    use crate::tests::fake::{SECOND, fake};

    /// It passed the check at its beginning just before the shutdown began, and was counted after
    /// that had seen nobody.
    #[tokio::test(start_paused = true)]
    async fn a_call_that_a_shutdown_has_not_counted_sends_nothing() {
        let (redlock, fake) = fake();
        let (engine, key) = (redlock.engine(), LockKey::new("", "k").unwrap());
        let now = engine.clock().now();
        let terms = Terms::of_plain_call(SECOND, now);
        let _shutdown = engine.shut_down();
        let attempt = DirectAttempt::first(engine.local_queue(&key, Kind::Exclusive), None, now);
        let owner = Owner::fresh(&engine.client);
        let claim = Claim { key, owner, expire: SECOND, kind: Kind::Exclusive };
        let way = (engine, &*engine.backend);
        let told = attempt.attempt_over(way, &terms, &claim, SECOND, true).await;
        assert!(matches!(told, Err(LockError::ShuttingDown { .. })));
        assert_eq!(fake.take_log(), [""; 0]);
    }
}
