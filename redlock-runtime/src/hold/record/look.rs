//! When the scheduler checks a lease, and what it has to do then.

use std::time::Duration;

use super::Hold;
use crate::clock::Moment;
use crate::hold::action::Action;
use crate::validity;

impl Hold {
    /// When the next renewal is, or was, due.
    pub(crate) fn due_at(&self) -> Moment {
        self.ledger.lock().due(&self.terms, self.begun)
    }

    /// How long to wait for the answer to a renewal.
    pub(crate) fn renewal_reply(&self) -> Duration {
        let ledger = self.ledger.lock();
        let reply = if ledger.is_claimed(&self.terms) {
            validity::renewal_reply
        } else {
            validity::claim_reply
        };
        reply(ledger.confirmed.lease, self.client.reply_timeout)
    }

    /// When the scheduler checks the lease first.
    pub(in crate::hold) fn first_look(&self) -> Moment {
        self.offer.first_look(self.due_at().min(self.stop_at()))
    }

    /// What to do at `now`; loses the lease when its time is up.
    pub(in crate::hold) fn next_action(&self, now: Moment, leeway: Duration) -> Action {
        if self.offer.is_open() && !self.is_over() {
            match self.offer.look(now, self.due_at()) {
                Some(Action::Withdraw) if !self.withdraw() => return Action::Forget,
                Some(action) => return action,
                None => {}
            }
        }
        if self.lose_if_due(now) {
            return Action::Forget;
        }
        let ledger = self.ledger.lock();
        if ledger.ended.is_some() {
            return Action::Forget;
        }
        let due = ledger.due(&self.terms, self.begun);
        if now < due.minus(leeway) { Action::Sleep(due.min(self.stop_at())) } else { Action::Renew }
    }
}
