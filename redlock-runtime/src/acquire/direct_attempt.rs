//! A direct attempt: a caller sends it without the poller of its queue.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Ungranted, attempt};
use super::caller::on_executor;
use super::endless::warn_if_endless;
use super::observed::{Observed, Span};
use crate::backend::{Claim, LockBackend};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::{Begin, NotGranted, Ownership, grant};
use crate::hold::Terms;
use crate::local_queue::{DirectAttemptGuard, QueueHandle};

pub(super) struct DirectAttempt {
    pub(super) queue: QueueHandle,
    /// `None`: other callers may make attempts at the same time.
    pub(super) guard: Option<DirectAttemptGuard>,
    pub(super) terms: Terms,
    /// Now, which may be long after the beginning of the call.
    pub(super) begun: Moment,
}

pub(super) enum DirectOutcome {
    Granted(Ownership),
    /// Not granted, for a reason that was observed and that may pass.
    NotNow(DirectAttempt, Observed),
}

impl DirectAttempt {
    #[expect(clippy::manual_async_fn, reason = "an async function would hold `self` twice")]
    pub(super) fn make(
        self,
        engine: &Arc<Engine>,
        claim: &Claim,
        within: Duration,
    ) -> impl Future<Output = Result<DirectOutcome, LockError>> + Send {
        async move {
            if let Some(route) = engine.route()
                && !self.queue.has_background_release()
            {
                let found = self.send(engine, &*route, claim, within, true).await?;
                return Ok(self.outcome(found));
            }
            // Boxed to keep this future small: only the first calls of a runtime take this path.
            Box::pin(self.on_executor(engine, claim.clone(), within)).await
        }
    }

    /// The backend is reached from its executor only. A task there completes the attempt. If the
    /// caller has gone meanwhile, the task drops the lock, and the drop frees it.
    async fn on_executor(
        self,
        engine: &Arc<Engine>,
        claim: Claim,
        within: Duration,
    ) -> Result<DirectOutcome, LockError> {
        let own = Arc::clone(engine);
        let outcome = on_executor(engine, "an acquire", |reply| async move {
            let found = self.send(&own, &*own.backend, &claim, within, false).await;
            let _ = reply.send(found.map(|found| self.outcome(found)));
        });
        outcome.await?
    }

    fn outcome(self, found: Result<Ownership, Observed>) -> DirectOutcome {
        match found {
            Ok(ownership) => DirectOutcome::Granted(ownership),
            Err(observed) => DirectOutcome::NotNow(self, observed),
        }
    }

    /// Makes the attempt. The inner `Err` says what was observed if the lock was not granted.
    /// `is_polled`: the caller itself polls this future.
    async fn send(
        &self,
        engine: &Arc<Engine>,
        route: &dyn LockBackend,
        claim: &Claim,
        within: Duration,
        is_polled: bool,
    ) -> Result<Result<Ownership, Observed>, LockError> {
        // Counted until the caller has looked for a shutdown. A task that sends the command for its
        // caller is counted by itself.
        let pending = is_polled.then(|| engine.pending.begin());
        // A task that sends the command for its caller may have begun later.
        let now = if is_polled { self.begun } else { engine.clock().now() };
        let tenure = match attempt(engine, route, claim, self.terms.template, now, within).await {
            Ok(tenure) => tenure,
            Err(why) => return self.not_granted(engine, claim, why).map(Err),
        };
        let begin = Begin { at: tenure.confirmed.sent, is_taken: is_polled };
        match grant(engine, &self.queue, tenure, self.terms, 1, begin) {
            Ok(granted) => {
                let ownership = Ownership::new(engine, self.queue.another(), granted);
                Ok(Ok(ownership.with_pending(pending)))
            }
            Err(NotGranted::Unscheduled(error)) => Err(error),
            Err(NotGranted::TooLate { took }) => {
                let mut observed = Observed::default();
                observed.too_late(took, self.terms.expire);
                Ok(Err(observed))
            }
        }
    }

    /// What an attempt without a grant showed. `Err`: no further one can help.
    #[cold]
    fn not_granted(
        &self,
        engine: &Arc<Engine>,
        claim: &Claim,
        why: Ungranted,
    ) -> Result<Observed, LockError> {
        let (mut observed, now) = (Observed::default(), engine.clock().now());
        match why {
            Ungranted::Busy { answer, .. } => {
                observed.busy(answer, now);
                warn_if_endless(engine, &claim.key, self.terms.template, &observed);
                if engine.fifo_queue().is_some() {
                    self.queue.state().contend();
                }
            }
            Ungranted::Failed(fault) => {
                let is_final = fault.is_final;
                observed.failed(fault, self.begun);
                if is_final {
                    let span = Span { started: self.terms.started, now };
                    return Err(observed.error(&claim.key, span, 1, None));
                }
            }
        }
        Ok(observed)
    }
}
