//! What a lease says of itself: to whoever has it, to operators, and to `redlock run`.

use std::time::Duration;

use super::Hold;
use crate::clock::Moment;
#[cfg(any(test, feature = "_operator"))]
use crate::hold::ledger::End;
use crate::state::LeaseState;

impl Hold {
    pub(crate) fn state(&self) -> LeaseState {
        if self.is_forked() {
            return LeaseState::Lost;
        }
        self.lose_if_due(self.client.clock.now());
        let ledger = self.ledger.lock();
        match ledger.ended {
            Some(_) => LeaseState::Lost,
            None if ledger.is_uncertain => LeaseState::Uncertain,
            None => LeaseState::Held,
        }
    }

    /// How long the lease may still be relied on if it is not renewed.
    pub(crate) fn remaining(&self) -> Duration {
        if self.is_forked() {
            return Duration::ZERO;
        }
        let now = self.client.clock.now();
        self.stop_at().since(now)
    }

    pub(crate) fn renewals(&self) -> u32 {
        if self.is_forked() { 0 } else { self.ledger.lock().renewals }
    }

    /// Was a full lease confirmed? A lock that was handed over has to be claimed for that.
    #[cfg(any(test, feature = "_operator"))]
    pub(crate) fn is_claimed(&self) -> bool {
        !self.is_forked() && self.ledger.lock().is_claimed(&self.terms)
    }

    /// Was the lease lost by its time alone? No renewal was sent since it was confirmed, which
    /// could have found that the lock was lost earlier.
    #[cfg(any(test, feature = "_operator"))]
    pub(crate) fn has_only_run_out(&self) -> bool {
        if self.is_forked() {
            return false;
        }
        let ledger = self.ledger.lock();
        let is_lost = ledger.ended.is_some_and(|ended| matches!(ended.how, End::Lost(_)));
        is_lost && ledger.renewal_sent <= ledger.confirmed.sent
    }

    /// When the hold began.
    pub(crate) fn begun(&self) -> Moment {
        self.begun
    }

    pub(crate) fn held_for(&self) -> Duration {
        if self.is_forked() {
            return Duration::ZERO;
        }
        let ledger = self.ledger.lock();
        let until = ledger.ended.map_or_else(|| self.client.clock.now(), |ended| ended.at);
        until.since(self.begun)
    }
}
