//! What operators are told about a lost lease.

use super::Hold;
use crate::executor;
use crate::hold::ledger::Loss;
use crate::report::Topic;
use crate::shield::tell;
use crate::telemetry::{self, LockLabels};

impl Hold {
    pub(super) fn labels(&self) -> LockLabels {
        LockLabels { template: self.terms.template, kind: self.claim.kind }
    }

    /// Logs a warning, unless there are many: then a summary covers the others.
    pub(super) fn tell_lost(&self, Loss { reason, key_index }: Loss) {
        telemetry::lost(self.labels(), reason);
        let (key, template) = (self.key_at(key_index), self.terms.template);
        let (held_for, renewals) = (self.held_for(), self.renewals());
        if executor::admits(&self.client.reports, Topic::Lost, template) {
            tell!(warn, key, template, %reason, ?held_for, renewals, "lease lost");
        } else {
            tell!(debug, key, template, %reason, ?held_for, renewals, "lease lost");
        }
    }
}
