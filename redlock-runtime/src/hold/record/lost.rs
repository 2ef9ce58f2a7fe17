//! The end of a lease that its holder did not release: when and why it is lost, what stops then,
//! and what operators are told.

use super::Hold;
use crate::clock::Moment;
use crate::error::LockError;
use crate::executor;
use crate::hold::ledger::{End, Loss};
use crate::report::Topic;
use crate::shield::tell;
use crate::state::LostReason;
use crate::telemetry::{self, LockLabels};
use crate::validity;

impl Hold {
    /// Loses the lease unless a renewal was confirmed meanwhile. Returns whether it is over.
    #[cold]
    pub(super) fn stop_unless_renewed(&self, now: Moment) -> bool {
        let reason = {
            let ledger = self.ledger.lock();
            // A renewal may have been confirmed between the two checks.
            if now < self.stop_at() {
                return false;
            }
            if ledger.ended.is_some() {
                return true;
            }
            // A process that was frozen may notice much later: what counts is what ended the lease.
            if ledger.is_used_up(&self.terms) || self.stop_at() >= self.longest_hold() {
                LostReason::RenewalLimit
            } else if ledger.is_uncertain {
                LostReason::Unreachable
            } else {
                LostReason::Expired
            }
        };
        self.lose(reason);
        true
    }

    /// Ends the hold because the lease was lost; where its caller has not taken it, nothing was.
    /// `false`: the hold had ended before.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        self.lose_key(0, reason)
    }

    /// The same because the key with this index was lost.
    pub(crate) fn lose_key(&self, key_index: usize, reason: LostReason) -> bool {
        let loss = Loss { reason, key_index };
        self.offer.withdraw();
        let is_unused = !self.offer.is_taken();
        let how = if is_unused { End::Withdrawn } else { End::Lost(loss) };
        let is_first = self.finish(self.client.clock.now(), how);
        if is_first {
            drop(self.take_pending());
            if !is_unused {
                self.tell_lost(loss);
            }
            self.tell_listeners();
        }
        is_first
    }

    /// Why the lease was lost; `None` while it holds and after a release.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.loss_by(self.client.clock.now())
    }

    #[cold]
    pub(super) fn check_ended(&self, now: Moment) -> Result<(), LockError> {
        self.lose_if_due(now);
        let ledger = self.ledger.lock();
        let Some(ended) = ledger.ended else { return Ok(()) };
        let Loss { reason, key_index } = match ended.how {
            End::Released | End::Withdrawn => Loss { reason: LostReason::Released, key_index: 0 },
            End::Lost(loss) => loss,
        };
        let key = self.key_at(key_index).to_owned();
        let held_for = ended.at.since(self.begun);
        Err(LockError::Lost { key, reason, held_for, renewals: ledger.renewals })
    }

    /// When the hold ends at the latest, as its renewals are used up.
    pub(super) fn longest_hold(&self) -> Moment {
        validity::longest_hold(self.begun, self.terms.expire, self.terms.max_renew)
    }

    pub(super) fn labels(&self) -> LockLabels {
        LockLabels { template: self.terms.template, kind: self.claim.kind }
    }

    /// Logs a warning, unless there are many: then a summary covers the others. A leader that steps
    /// down has lost nothing.
    fn tell_lost(&self, Loss { reason, key_index }: Loss) {
        let is_planned = self.terms.is_leader && reason == LostReason::RenewalLimit;
        if !is_planned {
            telemetry::lost(self.labels(), reason);
        }
        let (key, template) = (self.key_at(key_index), self.terms.template);
        let (held_for, renewals) = (self.held_for(), self.renewals());
        if !is_planned && executor::admits(&self.client.reports, Topic::Lost, template) {
            tell!(warn, key, template, %reason, ?held_for, renewals, "lease lost");
        } else {
            tell!(debug, key, template, %reason, ?held_for, renewals, "lease lost");
        }
    }
}
