//! What a check of all servers behind one name tells of their outage.

use super::OutageLog;
use crate::clock::Moment;

impl OutageLog {
    /// All servers behind this name have answered what was sent at `sent`.
    pub(crate) fn heard_all(&self, sent: Moment) {
        self.learn_answer(|outage| sent > outage.failed_at);
    }

    /// Not all servers behind this name can be used: an outage is not over.
    pub(crate) fn not_all_answer(&self) {
        if let Some(outage) = &mut self.state.lock().outage {
            outage.answers = None;
        }
    }
}
