//! What is counted in a queue until it is dropped: releases, direct attempts and waiters.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{AllQueues, QueueHandle};

/// A release that the background thread sends.
#[derive(Debug)]
pub(crate) struct Late {
    pub(super) handle: QueueHandle,
}

impl Drop for Late {
    fn drop(&mut self) {
        self.handle.queue.state().late_releases -= 1;
    }
}

/// A release that was sent and not answered yet. Its end, whatever the outcome, wakes the poller.
#[derive(Debug)]
pub(crate) struct Freeing {
    pub(super) handle: QueueHandle,
}

impl Drop for Freeing {
    fn drop(&mut self) {
        let queue = &self.handle.queue;
        let mut state = queue.state();
        state.releases -= 1;
        state.is_freed = true;
        drop(state);
        queue.news.notify_one();
    }
}

/// A direct attempt of a caller. Callers that come meanwhile wait for its end.
#[derive(Debug)]
pub(crate) struct DirectAttemptGuard {
    pub(super) handle: QueueHandle,
    pub(super) id: u64,
}

impl Drop for DirectAttemptGuard {
    fn drop(&mut self) {
        let queue = &self.handle.queue;
        let is_waited_for = {
            let mut state = queue.state();
            // This attempt may have been given up for slowness, and another caller may have begun
            // one since.
            if state.direct_attempt.is_some_and(|attempt| attempt.id == self.id) {
                state.direct_attempt = None;
            }
            !state.waiters.is_empty()
        };
        if is_waited_for {
            queue.news.notify_one();
        }
    }
}

/// One waiting caller, as counted against the limit of waiters.
#[derive(Debug)]
pub(crate) struct WaiterCount {
    pub(super) shared: Arc<AllQueues>,
}

impl Drop for WaiterCount {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
