//! A caller on its way to a lock: it asks by itself while nobody else wants the lock, and queues
//! behind a poller otherwise.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::attempt::{Begin, LAST_ATTEMPT, NotGranted, Outcome, Terms, ask, grant};
use super::observed::Observed;
use crate::acquire::waiting::poller;
use crate::backend::{Claim, LockBackend};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::key::LockKey;
use crate::local_queue::{Asking, QueueHandle, WaitHandle, Waiter};
use crate::options::{Policy, Wait};
use crate::owner::Owner;
use crate::thread_exit::Unsent;
use crate::{process, telemetry};

/// Which lock, and on what terms.
#[derive(Debug)]
pub(crate) struct Order {
    /// What the key was rendered from, or `LockRequest::label`: the label of metrics.
    pub(crate) template: &'static str,
    pub(crate) key: LockKey,
    pub(crate) policy: Policy,
}

pub(crate) type Granted = Result<Ownership, LockError>;

/// The future of an acquisition.
///
/// Cancel safe: dropping it gives up. A lock that was granted meanwhile is released, a command
/// without an answer is cleaned up behind.
pub(crate) struct Acquiring {
    /// In a mutex that nobody locks: a caller's future is `Sync` where its body is. `None`: done.
    work: Mutex<Option<Work>>,
    process: u32,
}

type Work = Pin<Box<dyn Future<Output = Granted> + Send>>;

/// Begins to acquire a lock. Nothing happens before the first poll.
pub(crate) fn start(engine: &Arc<Engine>, order: Order) -> Acquiring {
    let (engine, process) = (Arc::clone(engine), engine.process);
    let is_embedded = engine.is_embedded();
    let acquire = async move { acquire(&engine, &order).await };
    // Every answer comes from another thread or over a socket, so that others have their turn. A
    // task that has used up its budget, and blocks on a lock, would never hear of it.
    let work: Work = if is_embedded { Box::pin(acquire) } else { Box::pin(unconstrained(acquire)) };
    Acquiring { work: Mutex::new(Some(work)), process }
}

impl Future for Acquiring {
    type Output = Granted;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Granted> {
        let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = work else { unreachable!("polled after completion") };
        let granted = ready!(running.as_mut().poll(cx));
        *work = None;
        Poll::Ready(granted)
    }
}

impl Drop for Acquiring {
    /// In a child of a fork there is nothing to give up: the parent goes on. Another thread of it
    /// may have locked what this would lock.
    fn drop(&mut self) {
        let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner).take();
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

async fn acquire(engine: &Arc<Engine>, order: &Order) -> Granted {
    let started = engine.clock().now();
    let attempt = CountedCall::begin(order);
    let terms = order.terms(started, engine.shutdowns().begun());
    let granted = loop {
        if engine.shutdowns().refuse(terms.shutdowns) {
            break Err(LockError::ShuttingDown { key: order.key.name().to_owned() });
        }
        let granted = match order.policy.wait() {
            Wait::Never => ask_once(engine, order, terms).await,
            Wait::AtMost(limit) => wait(engine, order, terms, started.plus(limit)).await,
            Wait::Forever => wait(engine, order, terms, Moment::NEVER).await,
        };
        // What was taken back, as this task was not polled for so long, is waited for again.
        if granted.as_ref().map_or(true, Ownership::take) {
            break granted;
        }
    };
    attempt.end(&granted);
    granted
}

/// A call that is counted; one that is dropped before its end was cancelled.
struct CountedCall<'a> {
    order: &'a Order,
    has_ended: bool,
}

impl<'a> CountedCall<'a> {
    fn begin(order: &'a Order) -> Self {
        telemetry::attempt(order.template);
        Self { order, has_ended: false }
    }

    fn end(mut self, granted: &Granted) {
        self.has_ended = true;
        let Order { template, policy, .. } = self.order;
        match granted {
            Ok(ownership) => telemetry::acquired(template, ownership.hold().waited),
            Err(error) => {
                telemetry::not_acquired(template, error, policy.wait() != Wait::Never);
            }
        }
    }
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            telemetry::gave_up(self.order.template);
        }
    }
}

impl Order {
    fn terms(&self, started: Moment, shutdowns: u64) -> Terms {
        let Self { template, policy, .. } = self;
        let (expire, max_renew) = (policy.expire(), policy.max_renew());
        Terms { template, expire, max_renew, started, shutdowns }
    }

    fn claim(&self, engine: &Engine) -> Claim {
        Claim {
            key: self.key.clone(),
            owner: Owner::fresh(&engine.client_name),
            expire: self.policy.expire(),
        }
    }
}

/// One question, whoever else waits.
async fn ask_once(engine: &Arc<Engine>, order: &Order, terms: Terms) -> Granted {
    let handle = engine.handle(&order.key);
    let question = FirstAttempt { handle, asking: None, terms };
    let claim = order.claim(engine);
    match question.ask(engine, &claim, engine.reply_timeout).await? {
        FirstAnswer::Granted(ownership) => Ok(ownership),
        FirstAnswer::NotNow(_, seen) => {
            let waited = engine.clock().now().since(terms.started);
            Err(seen.error(&order.key, waited, 1))
        }
    }
}

async fn wait(engine: &Arc<Engine>, order: &Order, terms: Terms, end: Moment) -> Granted {
    let (handle, started) = (engine.handle(&order.key), terms.started);
    let Some(asking) = handle.ask_first(started) else {
        return enter(engine, handle, terms, end, 0)?.await;
    };
    let question = FirstAttempt { handle, asking: Some(asking), terms };
    let within = engine.reply_timeout.min(end.since(started).max(LAST_ATTEMPT));
    let claim = order.claim(engine);
    match question.ask(engine, &claim, within).await? {
        FirstAnswer::Granted(ownership) => Ok(ownership),
        FirstAnswer::NotNow(question, seen) => {
            let now = engine.clock().now();
            if now >= end {
                return Err(seen.error(&order.key, now.since(started), 1));
            }
            // Still the first one: those who came meanwhile stand behind.
            let place = enter(engine, question.handle, terms, end, 1)?;
            drop(question.asking);
            place.await
        }
    }
}

/// What a caller asks by itself.
struct FirstAttempt {
    handle: QueueHandle,
    /// `None`: others may ask at the same time.
    asking: Option<Asking>,
    terms: Terms,
}

enum FirstAnswer {
    Granted(Ownership),
    /// Not granted, for a reason that was seen and that may pass.
    NotNow(FirstAttempt, Observed),
}

impl FirstAttempt {
    async fn ask(
        self,
        engine: &Arc<Engine>,
        claim: &Claim,
        within: Duration,
    ) -> Result<FirstAnswer, LockError> {
        if let Some(way) = engine.route()
            && !self.handle.is_late()
        {
            let found = self.ask_by(engine, &*way, claim, within, true).await?;
            return Ok(self.answered(found));
        }
        // Boxed: the way of the first calls only.
        Box::pin(self.ask_by_host(engine, claim.clone(), within)).await
    }

    /// The backend is reached from its host only. A task there sees the question through; when the
    /// caller has gone meanwhile, the lock comes back, and its drop frees it.
    async fn ask_by_host(
        self,
        engine: &Arc<Engine>,
        claim: Claim,
        within: Duration,
    ) -> Result<FirstAnswer, LockError> {
        let (reply, mut answer) = oneshot::channel();
        let asking = Arc::clone(engine);
        let caller = Caller { is_answered: engine.is_embedded(), gone: Arc::default() };
        let gone = Arc::clone(&caller.gone);
        engine.executor().spawn(async move {
            let backend = Arc::clone(&asking.backend);
            let found = self.ask_by(&asking, &*backend, &claim, within, false).await;
            let _ = reply.send(found.map(|found| self.answered(found)));
            drop(gone);
        })?;
        // Not moved: the caller is gone before the answer has nobody to hear it.
        let answer = (&mut answer).await;
        caller.hears();
        answer.unwrap_or_else(|_| Err(stopped()))
    }

    fn answered(self, found: Result<Ownership, Observed>) -> FirstAnswer {
        match found {
            Ok(ownership) => FirstAnswer::Granted(ownership),
            Err(seen) => FirstAnswer::NotNow(self, seen),
        }
    }

    /// What was seen, where the lock was not granted. `is_polled`: by the caller itself.
    async fn ask_by(
        &self,
        engine: &Arc<Engine>,
        way: &dyn LockBackend,
        claim: &Claim,
        within: Duration,
        is_polled: bool,
    ) -> Result<Result<Ownership, Observed>, LockError> {
        let (terms, mut seen) = (self.terms, Observed::default());
        match ask(engine, way, claim, terms.template, within).await {
            Outcome::Granted(tenure) => {
                let begin = Begin { granted: tenure.confirmed.sent, is_taken: is_polled };
                match grant(engine, self.handle.another(), tenure, terms, 1, begin) {
                    Ok(ownership) => return Ok(Ok(ownership)),
                    Err(NotGranted::Unscheduled(error)) => return Err(error),
                    Err(NotGranted::TooLate { took }) => seen.too_late(took, terms.expire),
                }
            }
            Outcome::Busy { holder, free_in, is_split, .. } => {
                seen.busy(holder, free_in, engine.clock().now());
                seen.is_split = is_split;
                if engine.fifo_queue().is_some() {
                    self.handle.queue.state().contend();
                }
            }
            Outcome::Failed(fault) => {
                let is_final = fault.is_final;
                seen.failed(fault);
                if is_final {
                    let waited = engine.clock().now().since(terms.started);
                    return Err(seen.error(&claim.key, waited, 1));
                }
            }
        }
        Ok(Err(seen))
    }
}

/// A caller that waits for an answer from the host. When it goes away before, the end of its thread
/// waits for what becomes of the question.
struct Caller {
    is_answered: bool,
    /// The task that asks has it as well, until it has asked.
    gone: Arc<OnceLock<Unsent>>,
}

impl Caller {
    fn hears(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if !self.is_answered {
            self.gone.get_or_init(Unsent::here);
        }
    }
}

pub(crate) fn stopped() -> LockError {
    LockError::BackgroundThread { message: "it stopped during an acquire".to_owned() }
}

/// Takes a place in the queue: the first one for a caller that asked already.
fn enter(
    engine: &Arc<Engine>,
    handle: QueueHandle,
    terms: Terms,
    end: Moment,
    asked: u32,
) -> Result<WaitHandle, LockError> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let Some(waiting) = handle.wait() else {
        return Err(LockError::TooManyWaiters { key: handle.queue.key.name().to_owned() });
    };
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (reply, answer) = oneshot::channel();
    let waiter = Waiter::new(id, terms, end, reply);
    let needs_poller = handle.enter(waiter, asked);
    let place = WaitHandle::new(engine, handle.another(), id, answer, waiting);
    if needs_poller {
        poller::call(engine, handle)?;
    }
    Ok(place)
}
