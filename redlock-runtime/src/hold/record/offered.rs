//! A hold whose caller has not learned of it yet: the caller takes it, or it is taken back.

use super::Hold;
use crate::hold::ledger::End;
use crate::pending::PendingCommand;
use crate::shield::tell;

impl Hold {
    /// Has the caller learned of the lock?
    pub(crate) fn is_taken(&self) -> bool {
        self.offer.is_taken()
    }

    /// The caller takes the lock that it was offered. `None`: the lock was taken back meanwhile, or
    /// its lease is over. `Some(true)`: a renewal was put off until now.
    pub(crate) fn take_offer(&self) -> Option<bool> {
        // The lease is checked first: if it is over, the lock counts as never taken, and its
        // `min_hold` does not keep it.
        if self.is_forked() || self.withdraw_if_late() {
            return None;
        }
        self.offer.take()
    }

    /// Ends the hold if its time is up before its caller has the lock: nothing was lost, as no body
    /// relied on it. Returns whether it has ended.
    pub(crate) fn withdraw_if_late(&self) -> bool {
        let now = self.client.clock.now();
        if now < self.stop_at() {
            return false;
        }
        self.finish(now, End::Withdrawn);
        true
    }

    /// Takes the lock back from a caller that has not learned of it. `false`: the hold ended
    /// meanwhile, and the next holder may use its owner value already.
    pub(super) fn withdraw(&self) -> bool {
        if !self.finish(self.client.clock.now(), End::Withdrawn) {
            return false;
        }
        let key = self.claim.key.name();
        tell!(debug, key, "lock taken back: it was granted to a caller that is not polled");
        true
    }

    /// Has the caller not learned of the lock yet?
    pub(crate) fn is_offered(&self) -> bool {
        self.offer.is_open()
    }

    /// Takes what counts as pending for the offer: to be called when the offer is no longer open.
    pub(crate) fn take_pending(&self) -> Option<PendingCommand> {
        self.offer_pending.lock().take()
    }
}
