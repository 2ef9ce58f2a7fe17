//! The future of an acquisition: the caller makes an attempt of its own while no other caller wants
//! the lock, and waits in the local queue otherwise.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::direct_attempt::{DirectAttempt, DirectOutcome};
use super::observed::{Observed, Span};
use super::wait_handle::WaitHandle;
use super::{nesting, waiting};
use crate::backend::Claim;
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::Terms;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::local_queue::{QueueHandle, Waiter};
use crate::mutex::Mutex;
use crate::options::{Policy, Wait};
use crate::owner::Owner;
use crate::process;
use crate::telemetry::{CountedCall, LockLabels};

/// Which lock to acquire, and on what terms.
#[derive(Debug)]
pub(crate) struct Order {
    /// The template of the key, or `LockRequest::label`: the label of metrics.
    pub(crate) template: &'static str,
    pub(crate) key: LockKey,
    pub(crate) kind: Kind,
    pub(crate) policy: Policy,
    /// A call that finds the lock busy is skipped, which is no failure.
    pub(crate) skips_busy: bool,
    /// How many shutdowns of the client had begun before the call.
    pub(crate) shutdowns: u64,
}

/// The outcome of an acquisition.
pub(super) type Acquisition = Result<Ownership, LockError>;

/// The future of an acquisition.
///
/// Cancel safe: dropping it abandons the acquisition. A lock that was granted meanwhile is
/// released, and an unanswered command is cleaned up.
pub(crate) struct Acquiring {
    /// The mutex is never locked: it makes the caller's future `Sync` where its body is. `None`:
    /// done.
    work: Mutex<Option<Work>>,
    process: process::ProcessId,
}

type Work = Pin<Box<dyn Future<Output = Acquisition> + Send>>;

/// Begins to acquire a lock. The future does nothing before its first poll.
pub(crate) fn start(engine: &Arc<Engine>, order: Order) -> Acquiring {
    let own = Arc::clone(engine);
    Acquiring::new(engine, async move { acquire(&own, &order).await })
}

impl Acquiring {
    pub(super) fn new(
        engine: &Engine,
        acquire: impl Future<Output = Acquisition> + Send + 'static,
    ) -> Self {
        // Every answer comes from another thread or over a socket, so other tasks still have their
        // turn. A task that has used up its cooperative budget and blocks on a lock would never see
        // the answer.
        let work: Work =
            if engine.is_embedded() { Box::pin(acquire) } else { Box::pin(unconstrained(acquire)) };
        Self { work: Mutex::new(Some(work)), process: engine.process }
    }
}

impl Future for Acquiring {
    type Output = Acquisition;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Acquisition> {
        let work = self.work.get_mut();
        let Some(running) = work else { unreachable!("polled after completion") };
        let granted = ready!(running.as_mut().poll(cx));
        *work = None;
        Poll::Ready(granted)
    }
}

impl Drop for Acquiring {
    /// The child of a fork has nothing to abandon: the acquisition goes on in the parent. Another
    /// thread of the parent may hold the mutexes that this drop would lock.
    fn drop(&mut self) {
        let work = self.work.get_mut().take();
        if work.is_some() && self.process != process::id() {
            std::mem::forget(work);
        }
    }
}

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}

async fn acquire(engine: &Arc<Engine>, order: &Order) -> Acquisition {
    let (started, wait_limit) = (engine.clock().now(), order.policy.wait());
    nesting::note_order(engine, order.template, [&order.key], wait_limit);
    let call = order.counted();
    let terms = order.terms(started);
    let granted = acquire_one(engine, order, &terms).await;
    call.end(granted.as_ref().map(|ownership| ownership.hold().waited()));
    granted.map_err(|error| nesting::with_holds(engine, wait_limit, error))
}

/// Acquires the lock for one call, or for one key of a call.
pub(super) async fn acquire_one(engine: &Arc<Engine>, order: &Order, terms: &Terms) -> Acquisition {
    let mut begun = terms.started;
    loop {
        engine.check_shutdown(terms.shutdowns, order.key.name())?;
        let granted = match order.policy.wait() {
            // Boxed: the futures of callers that wait would be larger.
            Wait::Never => Box::pin(try_once(engine, order, terms, begun)).await,
            Wait::AtMost(limit) => {
                // There is time for one more attempt in any case.
                let end = terms.started.plus(limit).max(begun);
                wait(engine, order, terms, begun, end).await
            }
            Wait::Forever => wait(engine, order, terms, begun, Moment::NEVER).await,
        };
        if let Some(outcome) = taken(engine, terms, order.key.name(), granted) {
            return outcome;
        }
        begun = engine.clock().now();
    }
}

/// The caller takes what it was granted, unless a shutdown has begun meanwhile: then the lock is
/// given back, and no body begins behind the shutdown. `None`: the lock was taken back because this
/// task was not polled for too long; it waits again. `key`: what the caller wants.
pub(super) fn taken(
    engine: &Engine,
    terms: &Terms,
    key: &str,
    granted: Acquisition,
) -> Option<Acquisition> {
    let mut ownership = match granted {
        Ok(ownership) => ownership,
        failed => return Some(failed),
    };
    if !ownership.take() {
        return None;
    }
    // The grant still counts as pending. A shutdown begins before it looks at the count, so that
    // one of the two sees the other.
    if let Err(error) = engine.check_shutdown(terms.shutdowns, key) {
        ownership.hold().give_back();
        return Some(Err(error));
    }
    ownership.counted_no_more();
    Some(Ok(ownership))
}

impl Order {
    /// Counts the call.
    pub(super) fn counted(&self) -> CountedCall {
        let labels = LockLabels { template: self.template, kind: self.kind };
        let busy = match self.policy.wait() {
            _ if self.skips_busy => "skipped",
            Wait::Never => "refused",
            Wait::AtMost(_) | Wait::Forever => "timeout",
        };
        CountedCall::begin(labels, busy)
    }

    pub(super) fn terms(&self, started: Moment) -> Terms {
        let Self { template, policy, shutdowns, .. } = self;
        Terms {
            template,
            expire: policy.expire(),
            min_hold: policy.min_hold(),
            max_renew: policy.max_renew(),
            started,
            shutdowns: *shutdowns,
        }
    }

    fn claim(&self, engine: &Engine, terms: &Terms) -> Claim {
        Claim {
            key: self.key.clone(),
            owner: Owner::fresh(&engine.client),
            expire: terms.lease(),
            kind: self.kind,
        }
    }
}

/// Makes one attempt, whether or not other callers wait. Another one follows if it may have
/// overtaken a release of this process that nobody awaits, and some more after a split vote of
/// several servers, with random pauses: otherwise all competitors would leave the lock to each
/// other.
async fn try_once(
    engine: &Arc<Engine>,
    order: &Order,
    terms: &Terms,
    begun: Moment,
) -> Acquisition {
    let (mut attempts, mut has_followed) = (0, false);
    let (mut asked, mut seen) = (begun, Observed::default());
    let (mut answered, mut longest) = (None, Duration::ZERO);
    loop {
        attempts += 1;
        let queue = engine.local_queue(&order.key, order.kind);
        // Before the attempt: the release may be answered when the refusal arrives.
        let is_leaving = queue.is_leaving();
        let attempt = DirectAttempt { queue, guard: None, terms: *terms, begun };
        let claim = order.claim(engine, terms);
        let (attempt, observed) = match attempt.make(engine, &claim, engine.reply_timeout).await? {
            DirectOutcome::Granted(ownership) => return Ok(ownership),
            DirectOutcome::NotNow(attempt, observed) => (attempt, observed),
        };
        let DirectAttempt { queue, .. } = attempt;
        let now = engine.clock().now();
        seen = observed.after(seen, now);
        let took = now.since(asked);
        longest = longest.max(took);
        // From the first answer on: whoever keeps a vote is known as the holder by then.
        let split_for = now.since(*answered.get_or_insert(now));
        if seen.is_nobodys() && split_for < backoff::split_time(longest) {
            // The rivals of an attempt that took longer than its lease have gone: its caller was
            // not polled meanwhile.
            if took < terms.lease() {
                let pause = backoff::split(took, fastrand::f64());
                engine.executor().alarm(Some(pause))?.await;
            }
        } else if has_followed || !seen.is_busy() || !is_leaving {
            let span = Span { started: terms.started, now };
            return Err(seen.error(&order.key, span, attempts, None));
        } else {
            has_followed = true;
            queue.has_left().await;
        }
        asked = engine.clock().now();
        engine.check_shutdown(terms.shutdowns, order.key.name())?;
    }
}

/// Makes an attempt first if no other caller came before; waits in the local queue otherwise.
/// `begun`: now.
async fn wait(
    engine: &Arc<Engine>,
    order: &Order,
    terms: &Terms,
    begun: Moment,
    end: Moment,
) -> Acquisition {
    let queue = engine.local_queue(&order.key, order.kind);
    let handle = match queue.attempt_first(begun) {
        None => enter(engine, queue, *terms, end, None)?,
        Some(guard) => {
            let attempt = DirectAttempt { queue, guard: Some(guard), terms: *terms, begun };
            let within = engine.reply_timeout.min(end.since(begun).max(waiting::LAST_ATTEMPT));
            let claim = order.claim(engine, terms);
            match attempt.make(engine, &claim, within).await? {
                DirectOutcome::Granted(ownership) => return Ok(ownership),
                DirectOutcome::NotNow(attempt, observed) => {
                    enter_after(engine, order, attempt, end, observed)?
                }
            }
        }
    };
    handle.await
}

/// Enters the local queue after an attempt that was not granted, unless the time is up.
#[cold]
fn enter_after(
    engine: &Arc<Engine>,
    order: &Order,
    attempt: DirectAttempt,
    end: Moment,
    observed: Observed,
) -> Result<WaitHandle, LockError> {
    let DirectAttempt { queue, guard, terms, .. } = attempt;
    let now = engine.clock().now();
    if now >= end.min(observed.gives_up_at(terms.started, engine.outage_wait)) {
        let span = Span { started: terms.started, now };
        return Err(observed.error(&order.key, span, 1, None));
    }
    // Callers that came meanwhile wait after this one.
    let handle = enter(engine, queue, terms, end, Some(observed))?;
    drop(guard);
    Ok(handle)
}

/// Enters the local queue, at the front if the caller has made an attempt of its own that
/// `observed` this.
fn enter(
    engine: &Arc<Engine>,
    queue: QueueHandle,
    terms: Terms,
    end: Moment,
    observed: Option<Observed>,
) -> Result<WaitHandle, LockError> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let Some(count) = queue.wait() else {
        return Err(LockError::TooManyWaiters { key: queue.key.name().to_owned() });
    };
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (reply, answer) = oneshot::channel();
    let waiter = Waiter::new(id, terms, end, reply);
    let needs_poller = queue.enter(waiter, u32::from(observed.is_some()));
    let handle = WaitHandle::new(engine, queue.another(), id, answer, count);
    if needs_poller {
        waiting::start_poller(engine, queue, observed.unwrap_or_default())?;
    }
    Ok(handle)
}
