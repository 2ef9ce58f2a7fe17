//! The releases of a key that are under way.

use std::sync::Arc;

use super::queue::QueueHandle;
use super::release_counts::{CountedRelease, ReleaseCounts};

impl QueueHandle {
    /// Has the background thread still to send a release of this key? An attempt over another
    /// connection could overtake it.
    pub(crate) fn has_background_release(&self) -> bool {
        self.shared.in_background.are_any(self.key.redis_key())
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

    /// Begins a release. `is_awaited`: local waiters wait for its end, as no server signals it to
    /// them.
    pub(crate) fn begin_release(self, is_awaited: bool) -> ReleaseUnderWay {
        self.state().releases += u32::from(is_awaited);
        ReleaseUnderWay { queue: self, is_awaited, count: None }
    }
}

/// A release of a key, until this is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseUnderWay {
    /// Keeps the queue of waiters to which the server signals the release.
    queue: QueueHandle,
    /// Local waiters wait for its end, which wakes the poller, whatever the outcome.
    is_awaited: bool,
    /// Counts it where its caller does not await it.
    count: Option<CountedRelease>,
}

impl ReleaseUnderWay {
    /// It leaves over the connection of a caller, who does not await it.
    pub(crate) fn leaves(&mut self) {
        self.count_in(&Arc::clone(&self.queue.shared.leaving));
    }

    /// The background thread has to send it.
    pub(crate) fn goes_on_in_background(&mut self) {
        self.count_in(&Arc::clone(&self.queue.shared.in_background));
    }

    /// It is counted at every moment: before the earlier count ends.
    fn count_in(&mut self, counts: &Arc<ReleaseCounts>) {
        self.count = Some(CountedRelease::new(counts, self.queue.key.shared()));
    }

    /// Local waiters do not wait for its end any more.
    pub(crate) fn wake_waiters(&mut self) {
        if !std::mem::take(&mut self.is_awaited) {
            return;
        }
        let mut state = self.queue.state();
        state.releases -= 1;
        state.is_freed = true;
        drop(state);
        self.queue.news.notify_one();
    }

    /// Does another process compete for the lock, as far as this one knows?
    pub(crate) fn is_contended(&self) -> bool {
        self.queue.state().is_contended()
    }
}

impl Drop for ReleaseUnderWay {
    fn drop(&mut self) {
        self.wake_waiters();
    }
}
