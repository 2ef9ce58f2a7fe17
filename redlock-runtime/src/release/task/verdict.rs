//! What the answer to a release says of the lock.

use super::ReleaseTask;
use crate::backend::Found;
use crate::clock::Moment;
use crate::state::Released;

impl ReleaseTask {
    /// What has become of the lock whose release `found` this.
    pub(super) fn verdict(&self, found: Found) -> Released {
        let has_ended = |at: Moment| self.engine.clock().now() >= at;
        let may_end_at = self.former.and_then(|former| former.may_end_at);
        match found {
            Found::Ours => Released::Released,
            Found::Unclear => Released::Unknown,
            // An earlier attempt that was never answered may have freed the lock, or handed it
            // over.
            Found::Gone | Found::Stolen if self.is_unknown => Released::Unknown,
            Found::Gone | Found::Stolen if may_end_at.is_some_and(has_ended) => Released::Unknown,
            Found::Gone => Released::Expired,
            Found::Stolen => Released::Stolen,
        }
    }
}
