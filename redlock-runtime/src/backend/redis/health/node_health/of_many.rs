//! What a check of all servers behind one name tells of their outage.

use super::OutageLog;
use crate::clock::Moment;
use crate::error::{NodeError, NodeErrorKind};

impl OutageLog {
    /// All servers behind this name have answered what was sent at `sent`.
    pub(crate) fn heard_all(&self, sent: Moment) {
        self.learn_answer(|outage| sent > outage.failed_at);
    }

    /// A server behind this name cannot be used: an outage is not over.
    pub(crate) fn not_all_answer(&self, error: &NodeError) {
        if let Some(outage) = &mut self.state.lock().outage {
            outage.answers = None;
            (outage.kind, outage.error) = (error.kind(), error.to_string());
        }
    }

    /// Did the last failure of an outage say that the cluster has no master of a key?
    pub(crate) fn lacks_master(&self) -> bool {
        let state = self.state.lock();
        state.outage.as_ref().is_some_and(|outage| outage.kind == NodeErrorKind::Cluster)
    }
}
