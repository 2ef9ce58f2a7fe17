//! What a check of all servers behind one name tells of their outage.

use super::OutageLog;
use crate::clock::Moment;
use crate::error::NodeErrorKind;

impl OutageLog {
    /// All servers behind this name have answered what was sent at `sent`.
    pub(crate) fn heard_all(&self, sent: Moment) {
        self.learn_answer(|outage| sent > outage.failed_at);
    }

    /// Did the last failure of an outage say that the cluster has no master of a key?
    pub(crate) fn lacks_master(&self) -> bool {
        let state = self.state.lock();
        state.outage.as_ref().is_some_and(|outage| outage.kind == NodeErrorKind::Cluster)
    }
}
