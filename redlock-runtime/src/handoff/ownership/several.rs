//! What a hold of several keys is made of: the ownerships of its keys, one by one.

use super::{HeldKey, Ownership};
use crate::fencing::FencingToken;

impl Ownership {
    /// Ends the hold, but keeps its key for one with this fencing token. `false`: the lease was
    /// lost.
    pub(in crate::handoff) fn end_hold(&mut self, fencing_token: FencingToken) -> bool {
        let is_held = self.scheduler.end(&self.hold, self.engine.clock().now());
        let Some((_, tenure)) = self.held.as_mut().filter(|_| is_held) else { return false };
        tenure.renewed(self.hold.confirmed(), self.hold.server_end());
        tenure.raised(fencing_token);
        true
    }

    /// The key of a hold that has ended. The caller has to free it.
    pub(in crate::handoff) fn into_held(mut self) -> Option<HeldKey> {
        self.held.take()
    }

    /// The same of a hold with several keys.
    pub(in crate::handoff) fn with_further(mut self, further: Vec<HeldKey>) -> Self {
        self.further = further;
        self
    }
}
