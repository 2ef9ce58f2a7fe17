//! A holder of this process, as those see it who wait behind it and ask the server all the same.
//!
//! A holder learns at its next renewal that its key is gone. Those who wait look more often, and
//! what they find is news for the holder, too.

use std::sync::Arc;

use crate::hold::Hold;
use crate::local_queue::LocalQueue;
use crate::state::LostReason;

/// The hold of this process before a question about its lock.
pub(crate) struct LocalHolder(Option<Arc<Hold>>);

impl LocalHolder {
    pub(crate) fn of(queue: &LocalQueue) -> Self {
        Self(queue.state().holder.as_ref().filter(|hold| !hold.is_over()).cloned())
    }

    /// The server, which alone decides, said who has the lock: `None` has had it until now, and the
    /// one who asked has it.
    pub(crate) fn learn(self, queue: &LocalQueue, owner: Option<&str>) {
        let Some(hold) = self.0.filter(|hold| owner != Some(hold.claim.owner.as_str())) else {
            return;
        };
        // Held before the question and behind the answer: the server forgot it in between.
        let is_still = queue.state().holder.as_ref().is_some_and(|now| now.id == hold.id);
        if is_still {
            hold.lose(owner.map_or(LostReason::Expired, |_| LostReason::Stolen));
        }
    }
}
