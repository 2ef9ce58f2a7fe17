//! What an ownership gives away without a release: its tenure, to read it or to go on with it.

use super::{HeldKey, Ownership};
use crate::hold::Tenure;

impl Ownership {
    /// The tenure of its key, or of the first of its keys.
    pub(crate) fn tenure(&self) -> Option<&Tenure> {
        self.held.as_ref().map(|(_, tenure)| tenure)
    }

    /// Ends the hold of one key, and leaves the lock on the server to the caller. `None`: the lease
    /// was lost, and the lock is released.
    pub(crate) fn detach(mut self) -> Option<HeldKey> {
        if !self.scheduler.end(&self.hold, self.engine.clock().now()) {
            return None;
        }
        self.held.take()
    }
}
