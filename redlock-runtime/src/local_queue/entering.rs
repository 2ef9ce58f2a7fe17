//! Callers enter a queue, and leave it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::poller_state::PollerState;
use super::queue::{AllQueues, QueueHandle};
use super::state::QueueState;
use super::waiter::Waiter;
use crate::thread_exit::Unsent;

impl QueueHandle {
    /// Counts the caller as a waiter; `None`: there are too many.
    pub(crate) fn wait(&self) -> Option<Arc<WaiterCount>> {
        let before = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = WaiterCount { shared: Arc::clone(&self.shared) };
        (before < self.shared.max_waiters).then(|| Arc::new(waiting))
    }

    /// Counts a poller of this client.
    pub(crate) fn count_poller(&self) -> PollerCount {
        self.shared.pollers.fetch_add(1, Ordering::Relaxed);
        PollerCount { shared: Arc::clone(&self.shared) }
    }

    /// Adds a waiter, at the front if it has made attempts of its own. Returns whether a poller has
    /// to be started. While the client shuts down, the waiter gets an error instead.
    pub(crate) fn enter(&self, mut waiter: Waiter, asked: u32) -> bool {
        let mut state = self.state();
        if self.shared.shutdowns.refuse(waiter.terms.shutdowns) {
            drop(state);
            waiter.answer(Err(self.shutting_down()));
            return false;
        }
        waiter.attempts_before = self.attempts.load(Ordering::Relaxed).wrapping_sub(asked);
        let end = waiter.end();
        if asked > 0 {
            state.waiters.push_front(waiter);
        } else {
            state.waiters.push_back(waiter);
        }
        let is_absent = state.poller == PollerState::Absent;
        let is_news = state.needs_poller(end);
        if is_absent {
            state.poller = PollerState::Busy;
        }
        drop(state);
        if is_news && !is_absent {
            self.news.notify_one();
        }
        is_absent
    }

    /// Puts a waiter that could not be given the lock back to the front.
    pub(crate) fn put_back(&self, waiter: Waiter) {
        let mut state = self.state();
        if !self.shared.shutdowns.refuse(waiter.terms.shutdowns) {
            return state.waiters.push_front(waiter);
        }
        drop(state);
        waiter.answer(Err(self.shutting_down()));
    }

    /// A caller goes away. The poller keeps `unsent` until it has undone the caller's commands.
    pub(crate) fn leave(&self, id: u64, mut unsent: Option<Unsent>) {
        let gone = {
            let mut state = self.state();
            let gone = state.waiters.remove(id);
            let is_pollers = match state.poller {
                PollerState::Absent => false,
                PollerState::Busy => true,
                PollerState::Resting { .. } => gone.is_some(),
            };
            if is_pollers {
                keep(&mut state, &mut unsent);
            }
            gone
        };
        // Outside of the mutex: the drop may run a foreign waker.
        if gone.is_some() {
            self.news.notify_one();
        }
    }

    /// The poller has to undo commands of callers that it has timed out, and has `unsent` until it
    /// has done so.
    pub(crate) fn must_undo(&self, unsent: Unsent) {
        let mut unsent = Some(unsent);
        keep(&mut self.state(), &mut unsent);
    }
}

/// The poller keeps the first: the end of a thread may be waiting for it, and all end when the
/// poller has undone what it sent.
fn keep(state: &mut QueueState, unsent: &mut Option<Unsent>) {
    if state.left.is_none() {
        state.left = unsent.take();
    }
}

/// One waiting caller, as counted against the limit of waiters.
#[derive(Debug)]
pub(crate) struct WaiterCount {
    shared: Arc<AllQueues>,
}

impl Drop for WaiterCount {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One poller, as counted among those of its client.
#[derive(Debug)]
pub(crate) struct PollerCount {
    shared: Arc<AllQueues>,
}

impl PollerCount {
    /// How many pollers the client has.
    pub(crate) fn pollers(&self) -> usize {
        self.shared.pollers.load(Ordering::Relaxed)
    }
}

impl Drop for PollerCount {
    fn drop(&mut self) {
        self.shared.pollers.fetch_sub(1, Ordering::Relaxed);
    }
}
