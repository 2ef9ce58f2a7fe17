//! The handle of a caller that waits in the local queue, and how a caller enters it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::direct_attempt::DirectAttempt;
use super::observed::{CallTime, Observed};
use super::order::Order;
use super::waiting;
use crate::background_thread::stopped;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::Terms;
use crate::local_queue::{Answer, Counted, QueueHandle, Waiter};
use crate::thread_exit::Unsent;

/// Enters the local queue after an attempt that was not granted, unless the time is up.
#[cold]
pub(super) fn enter_after(
    engine: &Arc<Engine>,
    (order, terms): (&Order, &Terms),
    attempt: DirectAttempt,
    end: Moment,
    observed: Observed,
) -> Result<WaitHandle, LockError> {
    attempt.note_contention(engine, &observed);
    let DirectAttempt { queue, guard, number, .. } = attempt;
    let now = engine.clock().now();
    if now >= end.min(observed.gives_up_at(terms.started, engine.outage_wait)) {
        let time = CallTime { started: terms.started, now };
        return Err(observed.error(&order.key, time, number, None));
    }
    // Callers that came meanwhile wait after this one.
    let handle = enter(engine, queue, *terms, end, Some((observed, number)))?;
    drop(guard);
    Ok(handle)
}

/// Enters the local queue. `observed`: what the last attempt of the caller's own showed, and how
/// many it made; such a caller enters at the front.
pub(super) fn enter(
    engine: &Arc<Engine>,
    queue: QueueHandle,
    terms: Terms,
    end: Moment,
    observed: Option<(Observed, u32)>,
) -> Result<WaitHandle, LockError> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let Some(count) = queue.count_waiter() else {
        return Err(LockError::TooManyWaiters { key: queue.key().name().to_owned() });
    };
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (reply, answer) = oneshot::channel();
    let mut waiter = Waiter::new(id, terms, end, reply);
    let (observed, asked) = observed.unwrap_or_default();
    let answer_to_caller = observed.answer();
    waiter.refused = answer_to_caller.map(|answer| (answer, engine.clock().now()));
    let needs_poller = queue.enter(waiter, asked);
    let handle = WaitHandle::new(engine, queue.another(), id, answer, count);
    if needs_poller {
        waiting::start_poller(engine, queue, observed)?;
    }
    Ok(handle)
}

/// Resolves when the caller is granted the lock, or its wait ends with an error. Dropping it leaves
/// the queue; a lock that was granted meanwhile is released.
#[derive(Debug)]
pub(super) struct WaitHandle {
    engine: Arc<Engine>,
    queue: QueueHandle,
    id: u64,
    answer: oneshot::Receiver<Answer>,
    is_answered: bool,
    _count: Counted,
}

impl WaitHandle {
    pub(super) fn new(
        engine: &Arc<Engine>,
        queue: QueueHandle,
        id: u64,
        answer: oneshot::Receiver<Answer>,
        count: Counted,
    ) -> Self {
        let engine = Arc::clone(engine);
        Self { engine, queue, id, answer, is_answered: false, _count: count }
    }

    fn owned(&self, answer: Answer) -> Result<Ownership, LockError> {
        answer.map(|granted| Ownership::new(&self.engine, self.queue.another(), granted))
    }
}

impl Future for WaitHandle {
    type Output = Result<Ownership, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Not bound by the budget of the caller's task: it may block on this, and would never hear.
        let answer = ready!(pin!(unconstrained(&mut self.answer)).poll(cx));
        self.is_answered = true;
        Poll::Ready(self.owned(answer.unwrap_or_else(|_| Err(stopped("an acquire")))))
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.answer.close();
        // Commands that the poller sends for the caller, and its entry in the queue of the server,
        // have to be undone before the thread ends.
        let unsent = (!self.engine.is_embedded()).then(Unsent::here);
        self.queue.leave(self.id, unsent);
        // The lock may have been granted before this drop.
        if let Ok(answer) = self.answer.try_recv() {
            drop(self.owned(answer));
        }
    }
}
