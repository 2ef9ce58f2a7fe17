//! Requests a release hint: a server without a queue tells when another process releases the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::backend::{Claim, HintRegistration, OnRelease};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::local_queue::LocalQueue;
use crate::owner::Owner;

/// The shortest pause for which a hint is requested: a shorter one would be over before it came.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// How long to wait for a hint before it is requested again: it may have been lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// A release hint that was requested. Dropping it cancels the request.
pub(super) struct ReleaseHint {
    asked_at: Moment,
    /// Readers, or holders of permits, had the lock: the request keeps out others that come later.
    keeps_out: bool,
    has_come: Arc<AtomicBool>,
    _end: oneshot::Sender<()>,
}

impl ReleaseHint {
    /// A hint wakes the poller of the queue, like a release of this process.
    pub(super) fn request(
        engine: &Arc<Engine>,
        queue: &Arc<LocalQueue>,
        expire: Duration,
        keeps_out: bool,
    ) -> Option<Self> {
        let (end, ended) = oneshot::channel();
        let has_come = Arc::new(AtomicBool::new(false));
        let owner = Owner::fresh(&engine.client);
        let claim = Claim { key: queue.key().clone(), owner, expire, kind: queue.kind };
        let asked_at = engine.clock().now();
        let hint = Self { asked_at, keeps_out, has_come: Arc::clone(&has_come), _end: end };
        let wait = wait(Arc::clone(engine), Arc::clone(queue), claim, has_come, ended);
        engine.executor().spawn(wait).ok()?;
        Some(hint)
    }

    /// Can the requested hint still come, and does it keep others out if it has to?
    pub(super) fn is_pending(&self, now: Moment, keeps_out: bool) -> bool {
        if keeps_out && !self.keeps_out {
            return false;
        }
        !self.has_come.load(Ordering::Relaxed) && now.since(self.asked_at) < PATIENCE
    }
}

async fn wait(
    engine: Arc<Engine>,
    queue: Arc<LocalQueue>,
    claim: Claim,
    has_come: Arc<AtomicBool>,
    ended: oneshot::Receiver<()>,
) {
    let Some(hints) = engine.backend.abilities().release_hints else { return };
    let on_release: OnRelease = {
        let has_come = Arc::clone(&has_come);
        Arc::new(move || {
            if !has_come.swap(true, Ordering::Relaxed) {
                queue.freed();
            }
        })
    };
    let within = engine.reply_timeout;
    // Without a hint, the poller makes its next attempt by the clock.
    let registration = hints.request_hint(&claim, on_release, within).await;
    let _ = ended.await;
    let may_stay = registration.as_ref().map_or(true, HintRegistration::stays);
    let is_left = may_stay || !has_come.load(Ordering::Relaxed);
    drop(registration);
    if is_left {
        let _ = hints.cancel_hint(&claim, within).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_waited_for_until_it_came_or_patience_ends() {
        let asked_at = Moment::ZERO.plus(Duration::from_secs(100));
        let (end, _ended) = oneshot::channel();
        let has_come = Arc::new(AtomicBool::new(false));
        let keeps_out = false;
        let hint = ReleaseHint { asked_at, keeps_out, has_come: Arc::clone(&has_come), _end: end };
        let last = asked_at.plus(PATIENCE).minus(Duration::from_nanos(1));
        assert!(hint.is_pending(asked_at, false) && hint.is_pending(last, false));
        assert!(!hint.is_pending(asked_at.plus(PATIENCE), false));
        assert!(
            !hint.is_pending(asked_at, true),
            "readers have the lock now, and others may follow"
        );
        has_come.store(true, Ordering::Relaxed);
        assert!(!hint.is_pending(asked_at, false));
    }
}
