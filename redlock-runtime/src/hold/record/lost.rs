//! What operators are told of a lease that was lost.

use super::Hold;
use crate::report::Kind;
use crate::shield::tell;
use crate::state::LostReason;
use crate::{executor, telemetry};

impl Hold {
    /// A warning, unless there are many: a summary tells of the others.
    pub(crate) fn tell_lost(&self, reason: LostReason) {
        telemetry::lost(self.template, reason);
        let (key, template) = (self.claim.key.name(), self.template);
        let (held_for, renewals) = (self.held_for(), self.renewals());
        if executor::admits(&self.reports, Kind::Lost, template) {
            tell!(warn, key, template, %reason, ?held_for, renewals, "lease lost");
        } else {
            tell!(debug, key, template, %reason, ?held_for, renewals, "lease lost");
        }
    }
}
