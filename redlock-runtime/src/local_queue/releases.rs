//! The releases of a key that are under way, each counted until its guard is dropped.

use super::queue::QueueHandle;
use super::release_counts::CountedRelease;

impl QueueHandle {
    /// Has the background thread still to send a release of this key? An attempt over another
    /// connection could overtake it.
    pub(crate) fn has_background_release(&self) -> bool {
        self.shared.in_background.are_any(self.key.redis_key())
    }

    /// Counts a release that the background thread has to send.
    pub(crate) fn background_release(self) -> BackgroundRelease {
        let count = CountedRelease::new(&self.shared.in_background, self.key.shared());
        BackgroundRelease { _count: count, _handle: self }
    }

    /// Counts a release that leaves over the connection of a caller, and that nobody awaits.
    pub(crate) fn leaving(&self) -> Leaving {
        let count = CountedRelease::new(&self.shared.leaving, self.key.shared());
        Leaving { _count: count }
    }

    /// Is a release of this key under way that nobody awaits? An attempt over another connection
    /// may have overtaken it.
    pub(crate) fn is_leaving(&self) -> bool {
        self.shared.leaving.are_any(self.key.redis_key())
    }

    /// Waits until those have ended that are under way now: each was answered, or the background
    /// thread sends it, which it does soon after a quarter of `reply_timeout` at the latest.
    pub(crate) async fn has_left(&self) {
        self.shared.leaving.ends(self.key.redis_key()).await;
    }

    /// Counts a release that local waiters should wait for: no server signals its end to them.
    pub(crate) fn freeing(self) -> Freeing {
        self.state().releases += 1;
        Freeing { handle: self }
    }
}

/// A release that the background thread sends.
#[derive(Debug)]
pub(crate) struct BackgroundRelease {
    _count: CountedRelease,
    /// Keeps the queue of waiters to which the server signals the release.
    _handle: QueueHandle,
}

/// A release that leaves over the connection of a caller, and that nobody awaits.
#[derive(Debug)]
pub(crate) struct Leaving {
    _count: CountedRelease,
}

/// A release that was sent and not answered yet. Its end, whatever the outcome, wakes the poller.
#[derive(Debug)]
pub(crate) struct Freeing {
    handle: QueueHandle,
}

impl Freeing {
    pub(crate) fn leaving(&self) -> Leaving {
        self.handle.leaving()
    }

    pub(crate) fn background_release(&self) -> BackgroundRelease {
        self.handle.another().background_release()
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        let queue = &self.handle;
        let mut state = queue.state();
        state.releases -= 1;
        state.is_freed = true;
        drop(state);
        queue.news.notify_one();
    }
}
