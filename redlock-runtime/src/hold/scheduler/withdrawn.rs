//! Locks that were taken back from callers that are not polled.

use std::sync::Arc;

use super::Scheduler;
use crate::backend::{Claim, Release};
use crate::background_thread::lasting_work::LastingWork;
use crate::backoff;
use crate::clock::Clock;
use crate::hold::record::Hold;
use crate::pending::PendingCommand;

impl Scheduler {
    /// Frees a lock that was taken back from its caller, who may never be polled again. The lease
    /// is not renewed any more. When the caller is polled or dropped after all, its ownership
    /// releases once more, with the clean-up that may be due.
    pub(super) fn free(&self, hold: &Arc<Hold>) {
        self.forget(hold);
        // Dropped after the loop, when the releases are counted.
        let _offered = hold.take_pending();
        for claim in hold.claims() {
            let (clock, hold, claim) = (self.clock, Arc::clone(hold), claim.clone());
            let pending = hold.client.pending.begin();
            let release = TakenBack { clock, hold, claim, _pending: pending };
            // Without a thread, the lock is free when its lease ends.
            let _ = self.executor.spawn_lasting(release);
        }
        // Those who wait here come after the releases, which are spawned before they are woken.
        hold.tell_listeners();
    }
}

/// One key of such a lock.
struct TakenBack {
    clock: Clock,
    hold: Arc<Hold>,
    claim: Claim,
    _pending: PendingCommand,
}

impl LastingWork for TakenBack {
    /// Repeats the release until it is answered, or refused for good, or the lease is over.
    async fn run(&mut self) {
        let Self { clock, hold, claim, .. } = self;
        let (client, mut failures) = (&hold.client, 0);
        while clock.now() < hold.server_end() {
            let release = Release::of(claim);
            match client.backend.release(release, client.reply_timeout).await {
                Err(fault) if !fault.ends_releases() => {}
                _ => return,
            }
            let pause = backoff::failed(failures, fastrand::f64());
            clock.sleep_until(clock.now().plus(pause)).await;
            failures += 1;
        }
    }
}
