//! The release of a lock whose caller awaits the answer.

use super::Ownership;
use crate::clock::Moment;
use crate::release::{self, ReleaseFuture};
use crate::state::Released;

impl Ownership {
    /// Releases the lock. The release goes on even if its future is dropped.
    pub(crate) fn release(self) -> ReleaseFuture {
        let now = self.engine.clock().now();
        self.release_at(now)
    }

    fn release_at(mut self, now: Moment) -> ReleaseFuture {
        let mut tasks = self.let_go(now);
        let Some(first) = tasks.next() else { return ReleaseFuture::Now(Released::Released) };
        release::send_all(first, tasks.collect())
    }

    /// Releases the lock after a finished body. `None`: the lease was lost, so that no answer is
    /// worth waiting for; the drop releases what is left.
    pub(crate) fn release_after_body(self) -> Option<ReleaseFuture> {
        let now = self.engine.clock().now();
        (!self.warn_if_unprotected(now)).then(|| self.release_at(now))
    }
}
