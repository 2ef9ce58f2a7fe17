//! The releases of a key that are under way.

use std::sync::Arc;

use super::queue::{LocalQueues, QueueHandle};
use super::release_counts::{CountedRelease, ReleaseCounts};
use crate::key::LockKey;

impl LocalQueues {
    /// A command of an abandoned call may have taken the lock, which is freed again. An attempt of
    /// another call may come before that.
    pub(crate) fn abandoned(&self, key: &LockKey) -> CountedRelease {
        CountedRelease::new(&self.leaving, key.shared())
    }
}

impl QueueHandle {
    /// Has the background thread still to send a release of this key? An attempt over another
    /// connection could overtake it.
    pub(crate) fn has_background_release(&self) -> bool {
        self.shared.in_background.are_any(self.key().redis_key())
    }

    /// Is a release of this key under way that nobody awaits, or a clean-up? An attempt over
    /// another connection may have overtaken it.
    pub(crate) fn is_leaving(&self) -> bool {
        self.shared.leaving.are_any(self.key().redis_key())
    }

    /// Waits until those have ended that are under way now: each was answered, or the background
    /// thread sends it, which it does soon after a quarter of `reply_timeout` at the latest.
    pub(crate) async fn until_left(&self) {
        self.shared.leaving.ends(self.key().redis_key()).await;
    }

    /// Begins a release. `wakes_waiters`: its end wakes local waiters, as no server signals it to
    /// them.
    pub(crate) fn begin_release(self, wakes_waiters: bool) -> ReleaseUnderWay {
        self.state().releases += u32::from(wakes_waiters);
        ReleaseUnderWay { queue: self, wakes_waiters, count: None }
    }
}

/// A release of a key, until this is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseUnderWay {
    /// Keeps the queue of waiters to which the server signals the release.
    queue: QueueHandle,
    /// Local waiters wait for its end, which wakes their poller, whatever the outcome.
    wakes_waiters: bool,
    /// Counts the release while it leaves unawaited, or while the background thread has to send it.
    count: Option<CountedRelease>,
}

impl ReleaseUnderWay {
    /// The release leaves over the connection of a caller, who does not await it.
    pub(crate) fn leaves(&mut self) {
        self.count = Some(self.counted_in(&self.queue.shared.leaving));
    }

    /// The background thread has to send the release. The earlier count is to be dropped when that
    /// thread runs: an attempt that waits for its end would come to the thread before the release.
    #[must_use]
    pub(crate) fn goes_on_in_background(&mut self) -> Option<CountedRelease> {
        self.count.replace(self.counted_in(&self.queue.shared.in_background))
    }

    fn counted_in(&self, counts: &Arc<ReleaseCounts>) -> CountedRelease {
        CountedRelease::new(counts, self.queue.key().shared())
    }

    /// Local waiters no longer wait for its end.
    pub(crate) fn wake_waiters(&mut self) {
        if !std::mem::take(&mut self.wakes_waiters) {
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::local_queue::LocalQueues;

    fn join(queues: &Arc<LocalQueues>, name: &str, kind: Kind) -> QueueHandle {
        queues.join(&LockKey::new("", name).unwrap(), kind, None)
    }

    #[test]
    fn background_releases_are_counted_one_by_one() {
        let queues = LocalQueues::new(9);
        let handle = join(&queues, "a", Kind::Exclusive);
        // Each reader has a queue of its own.
        let (reader, other) = (join(&queues, "a", Kind::Read), join(&queues, "b", Kind::Read));
        let have_releases = || [&handle, &reader].map(QueueHandle::has_background_release);
        assert_eq!(have_releases(), [false; 2]);
        let in_background = |handle: QueueHandle| {
            let mut release = handle.begin_release(false);
            assert!(release.goes_on_in_background().is_none());
            release
        };
        let (first, second) =
            (in_background(handle.another()), in_background(join(&queues, "a", Kind::Read)));
        assert!(!other.has_background_release());
        drop(first);
        assert_eq!(have_releases(), [true; 2]);
        drop(second);
        assert_eq!(have_releases(), [false; 2]);
    }

    /// Others that begin meanwhile keep nobody waiting.
    #[test]
    fn whoever_waits_for_releases_waits_for_those_that_had_begun() {
        let queues = LocalQueues::new(9);
        let handle = join(&queues, "a", Kind::Exclusive);
        let leaving = || {
            let mut release = handle.another().begin_release(false);
            release.leaves();
            release
        };
        let first = leaving();
        let mut waiting = Box::pin(handle.until_left());
        let nobody = &mut Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(nobody).is_pending());
        let second = leaving();
        drop(first);
        assert!(waiting.as_mut().poll(nobody).is_ready() && handle.is_leaving());
        drop(second);
        assert!(!handle.is_leaving());
    }

    #[test]
    fn a_release_that_goes_on_in_the_background_leaves_until_it_is_there() {
        let queues = LocalQueues::new(9);
        let handle = join(&queues, "a", Kind::Exclusive);
        let mut release = handle.another().begin_release(false);
        release.leaves();
        let leaving = release.goes_on_in_background();
        assert!(handle.is_leaving() && handle.has_background_release());
        drop(leaving);
        assert!(!handle.is_leaving() && handle.has_background_release());
    }
}
