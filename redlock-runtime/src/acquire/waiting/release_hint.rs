//! Asks to be told when a lock is let go of elsewhere, where there is no line to stand in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::backend::{Claim, OnRelease};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::local_queue::LocalQueue;
use crate::owner::Owner;

/// A pause that is shorter would be over before a notice came.
pub(crate) const WORTH_IT: Duration = Duration::from_millis(5);
/// How long one is waited for before it is asked for anew: it may have gone to nobody.
const PATIENCE: Duration = Duration::from_secs(1);

/// A notice that was asked for. Dropping it forgoes it.
pub(crate) struct ReleaseHint {
    asked_at: Moment,
    was_told: Arc<AtomicBool>,
    _end: oneshot::Sender<()>,
}

impl ReleaseHint {
    /// What is told is news for the poller of the queue, like a release of this process.
    pub(crate) fn ask(
        engine: &Arc<Engine>,
        queue: &Arc<LocalQueue>,
        expire: Duration,
    ) -> Option<Self> {
        let (end, ended) = oneshot::channel();
        let was_told = Arc::new(AtomicBool::new(false));
        let owner = Owner::fresh(&engine.client_name);
        let claim = Claim { key: queue.key.clone(), owner, expire };
        let notice =
            Self { asked_at: engine.clock().now(), was_told: Arc::clone(&was_told), _end: end };
        let wait = wait(Arc::clone(engine), Arc::clone(queue), claim, was_told, ended);
        engine.executor().spawn(wait).ok()?;
        Some(notice)
    }

    /// Is there still something to wait for?
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        !self.was_told.load(Ordering::Relaxed) && now.since(self.asked_at) < PATIENCE
    }
}

async fn wait(
    engine: Arc<Engine>,
    queue: Arc<LocalQueue>,
    claim: Claim,
    was_told: Arc<AtomicBool>,
    ended: oneshot::Receiver<()>,
) {
    let told: OnRelease = {
        let was_told = Arc::clone(&was_told);
        Arc::new(move || {
            if !was_told.swap(true, Ordering::Relaxed) {
                queue.freed();
            }
        })
    };
    let within = engine.reply_timeout;
    let Some(asked) = engine.backend.request_hint(&claim, told, within) else { return };
    // Without a notice the poller goes by the clock, as it does anyhow.
    let asked = asked.await;
    let _ = ended.await;
    let is_left = !was_told.load(Ordering::Relaxed);
    drop(asked);
    if is_left {
        let _ = engine.backend.cancel_hint(&claim, within).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_waited_for_until_it_came_or_patience_ends() {
        let asked_at = Moment::ZERO.plus(Duration::from_secs(100));
        let (end, _ended) = oneshot::channel();
        let was_told = Arc::new(AtomicBool::new(false));
        let notice = ReleaseHint { asked_at, was_told: Arc::clone(&was_told), _end: end };
        let last = asked_at.plus(PATIENCE).minus(Duration::from_nanos(1));
        assert!(notice.is_due(asked_at) && notice.is_due(last));
        assert!(!notice.is_due(asked_at.plus(PATIENCE)));
        was_told.store(true, Ordering::Relaxed);
        assert!(!notice.is_due(asked_at));
    }
}
