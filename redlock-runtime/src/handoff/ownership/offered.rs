//! A lock that was granted to a caller who was not being polled.

use super::Ownership;

impl Ownership {
    /// The caller takes the lock that it was offered. `false`: the lock was taken back.
    #[cold]
    pub(super) fn take_offer(&mut self) -> bool {
        let was_offered = self.hold.is_offered();
        let taken = self.hold.take_offer();
        if was_offered {
            self.pending = self.hold.take_pending();
        }
        if taken == Some(true) {
            self.scheduler.look_at(&self.hold);
        }
        taken.is_some()
    }
}
