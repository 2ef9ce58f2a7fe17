//! A caller's place in the queue of this process.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::queue::{QueueHandle, WaiterCount};
use crate::acquire::{Granted, Terms, stopped};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::handoff::Ownership;
use crate::shield::shielded;
use crate::thread_exit::Unsent;

/// One caller, as the queue sees it.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) terms: Terms,
    end: Moment,
    /// How many questions had been asked when it came, less its own.
    pub(crate) asked_before: u32,
    reply: oneshot::Sender<Granted>,
}

#[cfg(test)]
thread_local! {
    /// How often this thread has looked at one who waits.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Waiter {
    /// One who waits no longer than until `end`.
    pub(crate) fn new(id: u64, terms: Terms, end: Moment, reply: oneshot::Sender<Granted>) -> Self {
        Self { id, terms, end, asked_before: 0, reply }
    }

    pub(crate) fn end(&self) -> Moment {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        self.end
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Ends the wait. What a caller that has gone cannot take comes back. A waker that panics is
    /// called once the answer is delivered.
    pub(crate) fn answer(self, granted: Granted) -> Option<Ownership> {
        shielded(|| self.reply.send(granted).err().and_then(Result::ok)).flatten()
    }
}

/// Resolves when the caller is granted the lock, or told why not. Dropping it leaves the queue;
/// a lock that was granted meanwhile is released.
#[derive(Debug)]
pub(crate) struct WaitHandle {
    handle: QueueHandle,
    id: u64,
    answer: oneshot::Receiver<Granted>,
    is_answered: bool,
    is_embedded: bool,
    _waiting: Arc<WaiterCount>,
}

impl WaitHandle {
    pub(crate) fn new(
        engine: &Engine,
        handle: QueueHandle,
        id: u64,
        answer: oneshot::Receiver<Granted>,
        waiting: Arc<WaiterCount>,
    ) -> Self {
        let is_embedded = engine.is_embedded();
        Self { handle, id, answer, is_answered: false, is_embedded, _waiting: waiting }
    }
}

impl Future for WaitHandle {
    type Output = Granted;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Granted> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        self.is_answered = true;
        Poll::Ready(answer.unwrap_or_else(|_| Err(stopped())))
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer.close();
            // What the poller asks for it, and the place in line, are left behind otherwise.
            let unsent = (!self.is_embedded).then(Unsent::here);
            self.handle.leave(self.id, unsent);
        }
    }
}
