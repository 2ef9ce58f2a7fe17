//! Locks that were taken back from callers that are not polled.

use std::sync::Arc;

use super::Scheduler;
use crate::backend::Release;
use crate::backoff;
use crate::hold::record::Hold;

impl Scheduler {
    /// Frees a lock that was taken back from its caller, who may never be polled again: repeats the
    /// release until it is answered, or refused for good, or the lease is over. The lease is not
    /// renewed any more. When the caller is polled or dropped after all, its ownership releases
    /// once more, with the clean-up that may be due.
    pub(super) fn free(&self, hold: &Arc<Hold>) {
        self.forget(hold);
        // Dropped after the loop, when the releases are counted.
        let _offered = hold.take_pending();
        for claim in hold.claims() {
            let (clock, hold, claim) = (self.clock, Arc::clone(hold), claim.clone());
            let pending = hold.client.pending.begin();
            tokio::spawn(async move {
                let _pending = pending;
                let (client, mut failures) = (&hold.client, 0);
                while clock.now() < hold.server_end() {
                    let release = Release::of(&claim);
                    match client.backend.release(release, client.reply_timeout).await {
                        Err(fault) if !fault.ends_releases() => {}
                        _ => return,
                    }
                    let pause = backoff::failed(failures, fastrand::f64());
                    clock.sleep_until(clock.now().plus(pause)).await;
                    failures += 1;
                }
            });
        }
        // Those who wait here come after the releases, which are spawned before they are woken.
        hold.tell_listeners();
    }
}
