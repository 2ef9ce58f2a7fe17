//! What operators are told about a lost lease.

use super::Hold;
use crate::executor;
use crate::hold::ledger::Loss;
use crate::report::Topic;
use crate::shield::tell;
use crate::state::LostReason;
use crate::telemetry::{self, LockLabels};

impl Hold {
    pub(super) fn labels(&self) -> LockLabels {
        LockLabels { template: self.terms.template, kind: self.claim.kind }
    }

    /// Logs a warning, unless there are many: then a summary covers the others. A leader that steps
    /// down has lost nothing.
    pub(super) fn tell_lost(&self, Loss { reason, key_index }: Loss) {
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
