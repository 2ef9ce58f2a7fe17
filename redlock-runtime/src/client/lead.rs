//! Leadership: of all candidates for a key one runs its closure, and the next one when that has
//! ended.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::request::LockRequest;
use crate::backoff;
use crate::engine::Engine;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::pending::PendingCommand;
use crate::process::OfProcess;
use crate::shield::tell;
use crate::state::LostReason;

impl LockRequest {
    /// Leader election: waits until this candidate has the lock, and runs `lead` as long as it
    /// keeps it. Every process that may do the work calls this with the same key; one of them leads
    /// at a time.
    ///
    /// `lead` gets the lease, with the fencing token of this term, which is greater than that of
    /// every leader before. The future that it returns is polled only while the lease holds: it is
    /// dropped before another process can lead. After such a loss the candidate campaigns again,
    /// through outages of Redis too, and calls `lead` once more when it is elected. When the future
    /// is done, the candidate resigns and returns its output; a waiting candidate follows at once.
    /// Code that does not reach an `.await` is not stopped; fencing tokens are for that.
    ///
    /// `wait` does not matter: a campaign lasts as long as it takes. With
    /// [`max_renew`](Self::max_renew) a leader steps down when its renewals are used up, and
    /// campaigns again after the candidates that wait; for metrics that is no lost lease. A short
    /// [`expire`](Self::expire) finds a successor sooner when a leader dies, a long one rides out
    /// longer interruptions.
    ///
    /// One leads at a time: a read lock or a permit is refused with [`LockError::Config`]. Workers
    /// of which several may run at once take [`permits`](Self::permits), and [`run`](Self::run)
    /// their work under one each.
    ///
    /// Elections, losses and resignations are reported at `INFO` (`docs/observability.md`); a lock
    /// whose key has no expiry, for which candidates would wait for ever, once at `WARN`.
    ///
    /// # Errors
    /// Only what time does not mend: [`LockError::Config`], [`LockError::InvalidKey`],
    /// [`LockError::AlreadyHeld`] when this task holds the key already, [`LockError::ShuttingDown`]
    /// once [`shutdown`](crate::Redlock::shutdown) or [`drain`](crate::Redlock::drain) was called,
    /// also inside of a hold, and for a leader too: it resigns;
    /// [`LockError::Unavailable`] when each server refuses for a reason that needs a person (no
    /// permission, a wrong password, a key of another type), [`LockError::ForkedProcess`] and
    /// [`LockError::BackgroundThread`].
    ///
    /// # Panics
    /// A panic of `lead` or of its future releases the lock, and goes on to the caller.
    ///
    /// # Cancel safety
    /// Dropping the future resigns: it drops that of `lead`, and releases the lock in the
    /// background. A campaign ends without a trace.
    ///
    /// ```
    /// use redlock::{Lease, LockError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let settled = redlock.lock("settlement").lead(|lease: Lease| async move {
    ///     let mut settled = 0;
    ///     while settled < 3 {
    ///         println!("settle one, fenced by token {}", lease.fencing_token());
    ///         settled += 1;
    ///         tokio::task::yield_now().await; // here the leader is stopped after a loss
    ///     }
    ///     settled
    /// });
    /// assert_eq!(settled.await?, 3);
    /// # Ok(()) }
    /// ```
    pub async fn lead<F, L>(self, mut lead: F) -> Result<L::Output, LockError>
    where
        F: FnMut(Lease) -> L,
        L: Future,
    {
        let candidate = Candidate::new(self)?;
        loop {
            let guard = candidate.campaign().await?;
            match Term::begin(&candidate, guard).serve(&mut lead).await {
                TermEnd::Done(output) => return Ok(output),
                TermEnd::Lost(reason) => candidate.step_back(reason).await?,
                TermEnd::Over(error) => return Err(error),
            }
        }
    }
}

/// A candidate, as long as its future lives.
struct Candidate {
    request: LockRequest,
    /// How many shutdowns of the client had begun before.
    shutdowns_before: u64,
}

impl Candidate {
    fn new(request: LockRequest) -> Result<Self, LockError> {
        request.check()?;
        request.check_lead()?;
        let shutdowns_before = request.engine().shutdowns().count();
        Ok(Self { request: request.of_candidate(shutdowns_before), shutdowns_before })
    }

    fn engine(&self) -> &Arc<Engine> {
        self.request.engine()
    }

    /// Waits for the lock.
    async fn campaign(&self) -> Result<LockGuard, LockError> {
        let mut failures = 0;
        loop {
            self.check_shutdown()?;
            self.request.check_not_held()?;
            match self.request.clone().acquire().await {
                Ok(guard) => return Ok(guard),
                Err(error) if may_pass(&error) => {
                    failures += 1;
                    self.tell_failure(&error, failures);
                    self.pause(self.pause_after(&error, failures)).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// After a loss. A leader that stepped down lets others come first: where the server has a
    /// queue they are before it in any case, elsewhere they ask now and then.
    async fn step_back(&self, reason: LostReason) -> Result<(), LockError> {
        if reason == LostReason::RenewalLimit && self.engine().fifo_queue().is_none() {
            self.pause(backoff::STEPPED_DOWN).await?;
        }
        Ok(())
    }

    /// How long to pause after `failures` in a row. A campaign that an outage has ended, as the
    /// client does not wait for longer, has paused between its own attempts already.
    fn pause_after(&self, error: &LockError, failures: u32) -> Duration {
        let (random, outage_wait) = (fastrand::f64(), self.engine().outage_wait);
        if outage_wait.is_some() && matches!(error, LockError::Unavailable { .. }) {
            backoff::failed(failures, random)
        } else {
            backoff::campaign(failures, random)
        }
    }

    /// Returns when the time is up, or with a shutdown.
    async fn pause(&self, time: Duration) -> Result<(), LockError> {
        // The caller may have no timers.
        let engine = self.engine();
        let mut alarm = pin!(engine.executor().alarm(Some(time))?);
        let shutdown = Box::pin(engine.shutdowns().begins_after(Some(self.shutdowns_before)));
        let mut shutdown = OfProcess::new(engine.process, shutdown);
        poll_fn(|cx| match alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => Pin::new(&mut shutdown).poll(cx),
        })
        .await;
        Ok(())
    }

    fn check_shutdown(&self) -> Result<(), LockError> {
        self.engine().check_shutdown(Some(self.shutdowns_before), self.request.name())
    }

    fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { key: self.request.name().to_owned() }
    }

    /// One line for each campaign that fails, however often it fails.
    fn tell_failure(&self, error: &LockError, failures: u32) {
        const WHAT: &str = "campaign failed; it is tried again";
        let (key, template) = (self.request.name(), self.request.template());
        if failures == 1 {
            tell!(warn, key, template, %error, "{WHAT}");
        } else {
            tell!(debug, key, template, %error, failures, "{WHAT}");
        }
    }
}

/// May the same campaign succeed later, without a change by a person?
fn may_pass(error: &LockError) -> bool {
    match error {
        LockError::Timeout { .. }
        | LockError::TurnTaken { .. }
        | LockError::TooManyWaiters { .. }
        | LockError::ExpireTooShort { .. } => true,
        LockError::Unavailable { .. } => error.retry_after().is_some(),
        _ => false,
    }
}

/// Why a leader resigns that did not end by itself.
const SHUTDOWN: &str = "its client is shutting down";

/// How a term ended.
enum TermEnd<T> {
    Done(T),
    Lost(LostReason),
    /// The candidate cannot go on.
    Over(LockError),
}

/// One term of a leader. Its drop resigns.
struct Term<'a> {
    candidate: &'a Candidate,
    /// `None`: the term is over. Dropped before `pending`, so that a shutdown sees the release
    /// begin before it sees the term end.
    guard: Option<LockGuard>,
    shutdown: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync + 'a>>>,
    /// A shutdown waits until the leader has resigned.
    pending: Option<PendingCommand>,
}

impl<'a> Term<'a> {
    fn begin(candidate: &'a Candidate, guard: LockGuard) -> Self {
        let engine = candidate.engine();
        // Counted before the term looks for a shutdown. A shutdown begins before it looks at the
        // count, so that one of the two sees the other.
        let pending = Some(engine.pending.begin());
        let (key, template) = (guard.key(), candidate.request.template());
        let (fencing_token, waited) = (guard.fencing_token(), guard.waited());
        tell!(info, key, template, %fencing_token, ?waited, "elected leader");
        let shutdown = Box::pin(engine.shutdowns().begins_after(Some(candidate.shutdowns_before)));
        Self { candidate, guard: Some(guard), shutdown: Some(shutdown), pending }
    }

    /// Runs the closure while the lease holds.
    async fn serve<F, L>(mut self, lead: &mut F) -> TermEnd<L::Output>
    where
        F: FnMut(Lease) -> L,
        L: Future,
    {
        // A shutdown may have come, and returned, before the term began.
        if let Err(error) = self.candidate.check_shutdown() {
            self.guard.iter().for_each(|guard| guard.lease().hold().give_back());
            self.resign(SHUTDOWN).await;
            return TermEnd::Over(error);
        }
        let outcome = {
            let Self { guard: Some(guard), shutdown: Some(shutdown), .. } = &mut self else {
                unreachable!("a term begins with its lock")
            };
            let lease = guard.lease().clone();
            let mut body = pin!(guard.protect(async { lead(lease).await }));
            poll_fn(|cx| match body.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => shutdown.as_mut().poll(cx).map(|()| None),
            })
            .await
        };
        match outcome {
            Some(Ok(output)) => {
                self.resign("its work is done").await;
                TermEnd::Done(output)
            }
            Some(Err(LockError::Lost { reason, .. })) => {
                self.lose(reason);
                TermEnd::Lost(reason)
            }
            Some(Err(error)) => TermEnd::Over(error),
            None => {
                self.resign(SHUTDOWN).await;
                TermEnd::Over(self.candidate.shutting_down())
            }
        }
    }

    async fn resign(&mut self, why: &'static str) {
        let Some(guard) = self.guard.take() else { return };
        let key = guard.key().to_owned();
        tell!(info, key, why, "leader resigned");
        guard.finish().await;
    }

    fn lose(&mut self, reason: LostReason) {
        let Some(guard) = self.guard.take() else { return };
        tell!(info, key = guard.key(), %reason, "leadership lost, campaigning again");
    }
}

impl Drop for Term<'_> {
    /// The leader was dropped, or has panicked.
    fn drop(&mut self) {
        let is_forked = self.candidate.engine().check_process().is_err();
        if is_forked {
            // Another thread of the parent may hold a mutex that these drops would lock.
            std::mem::forget((self.shutdown.take(), self.pending.take()));
        } else if let Some(guard) = &self.guard {
            let why =
                if std::thread::panicking() { "it panicked" } else { "its candidate was dropped" };
            tell!(info, key = guard.key(), why, "leader resigned");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redlock;

    #[tokio::test]
    async fn a_term_does_not_begin_behind_a_shutdown() {
        let redlock = Redlock::builder().memory().build().await.unwrap();
        let request = redlock.lock("leader").min_hold(Duration::from_secs(60));
        let candidate = Candidate::new(request).unwrap();
        let guard = candidate.campaign().await.unwrap();
        assert_eq!(redlock.shutdown(Duration::from_secs(1)).await, 0);
        let mut begins = |_| async { panic!("it begins") };
        let term = Term::begin(&candidate, guard).serve(&mut begins).await;
        assert!(matches!(term, TermEnd::Over(LockError::ShuttingDown { .. })));
        assert!(redlock.held().is_empty());
        let next = redlock.lock("leader").try_acquire().await.unwrap();
        assert!(next.is_some(), "nothing has run that its `min_hold` would keep apart");
    }
}
