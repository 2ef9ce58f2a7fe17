//! What neither begins an outage nor ends one.

use super::OutageLog;
use crate::backend::redis::clock::CLOCK;
use crate::error::{NodeError, NodeErrorKind};

impl OutageLog {
    /// A command failed with an error that begins no outage.
    pub(super) fn answered_with(&self, error: &NodeError) {
        let lets_nobody_in =
            matches!(error.kind(), NodeErrorKind::Tls | NodeErrorKind::Authentication);
        if lets_nobody_in && self.is_out() {
            self.note_not_back(error);
        } else {
            self.heard();
        }
    }

    /// A server cannot be used as long as nobody changes a certificate, a password or the like.
    pub(crate) fn note_not_back(&self, error: &NodeError) {
        if let Some(outage) = &mut self.state.lock().outage {
            outage.answers = None;
            outage.failed += 1;
            outage.failed_at = CLOCK.now();
            (outage.kind, outage.error) = (error.kind(), error.to_string());
        }
    }
}
