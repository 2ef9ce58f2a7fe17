//! The handle of a caller that waits in the local queue.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::background_thread::stopped;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::local_queue::{Answer, QueueHandle, WaiterCount};
use crate::thread_exit::Unsent;

/// Resolves when the caller is granted the lock, or its wait ends with an error. Dropping it leaves
/// the queue; a lock that was granted meanwhile is released.
#[derive(Debug)]
pub(super) struct WaitHandle {
    engine: Arc<Engine>,
    queue: QueueHandle,
    id: u64,
    answer: oneshot::Receiver<Answer>,
    is_answered: bool,
    _count: Arc<WaiterCount>,
}

impl WaitHandle {
    pub(super) fn new(
        engine: &Arc<Engine>,
        queue: QueueHandle,
        id: u64,
        answer: oneshot::Receiver<Answer>,
        count: Arc<WaiterCount>,
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
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
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
