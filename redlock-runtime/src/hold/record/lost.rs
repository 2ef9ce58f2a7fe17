//! What operators are told about a lost lease.

use super::Hold;
use crate::report::Topic;
use crate::shield::tell;
use crate::state::LostReason;
use crate::{executor, telemetry};

impl Hold {
    /// Logs a warning, unless there are many: then a summary covers the others.
    pub(crate) fn tell_lost(&self, reason: LostReason) {
        telemetry::lost(self.template, reason);
        let (key, template) = (self.lost_key(), self.template);
        let (held_for, renewals) = (self.held_for(), self.renewals());
        if executor::admits(&self.reports, Topic::Lost, template) {
            tell!(warn, key, template, %reason, ?held_for, renewals, "lease lost");
        } else {
            tell!(debug, key, template, %reason, ?held_for, renewals, "lease lost");
        }
    }
}
