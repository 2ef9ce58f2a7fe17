//! Callers enter a queue, and leave it.

use std::sync::atomic::Ordering;

use super::counted::Counted;
use super::poller_state::PollerState;
use super::queue::{LocalQueue, QueueHandle};
use super::state::Left;
use super::waiter::Waiter;
use crate::background_thread::stopped;
use crate::thread_exit::Unsent;

impl QueueHandle {
    /// Counts the caller as a waiter; `None`: there are too many.
    pub(crate) fn count_waiter(&self) -> Option<Counted> {
        let (waiting, before) = Counted::one_more(&self.shared.waiting);
        (before < self.shared.max_waiters).then_some(waiting)
    }

    /// Counts a poller of this client.
    pub(crate) fn count_poller(&self) -> Counted {
        Counted::one_more(&self.shared.pollers).0
    }

    /// Adds a waiter, at the front if it has made attempts of its own. Returns whether a poller has
    /// to be started. While the client shuts down, the waiter gets an error instead.
    pub(crate) fn enter(&self, mut waiter: Waiter, asked: u32) -> bool {
        let mut state = self.state();
        if self.shared.shutdowns.refuse(waiter.terms.shutdowns_before) {
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

    /// Puts a waiter that could not be given the lock back to the front, unless it has gone.
    pub(crate) fn put_back(&self, waiter: Waiter) {
        let mut state = self.state();
        // It is dropped outside of the mutex: it may have the waker of its caller, which is foreign
        // code. One that goes later takes itself out of the queue before it ends.
        if waiter.is_gone() {
            return drop(state);
        }
        let why = if self.shared.shutdowns.refuse(waiter.terms.shutdowns_before) {
            self.shutting_down()
        } else if state.poller == PollerState::Absent {
            // It has died meanwhile: nobody would look after the waiter.
            stopped("an acquire")
        } else {
            return state.waiters.push_front(waiter);
        };
        drop(state);
        waiter.answer(Err(why));
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
            if is_pollers && state.left.is_none() {
                state.left = Some(self.left(unsent.take()));
            }
            gone
        };
        // Outside of the mutex: the drop may run a foreign waker.
        if gone.is_some() {
            self.news.notify_one();
        }
    }

    /// The poller has to undo commands of callers that it has timed out: the end of a thread waits
    /// until it has done so. Of several such callers, the first counts: another one that began and
    /// ended meanwhile would be progress.
    pub(crate) fn note_must_undo(&self) {
        self.state().left.get_or_insert_with(|| self.left(Some(Unsent::here())));
    }

    fn left(&self, unsent: Option<Unsent>) -> Left {
        Left::new(unsent, self.shared.abandoned(self.key()))
    }
}

impl LocalQueue {
    /// The poller makes an attempt.
    pub(crate) fn count_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// How many attempts were made for a waiter.
    pub(crate) fn attempts_for(&self, waiter: &Waiter) -> u32 {
        self.attempts.load(Ordering::Relaxed).wrapping_sub(waiter.attempts_before)
    }
}
