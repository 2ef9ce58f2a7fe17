//! What waiting callers learn from the server about a holder of this process.
//!
//! A holder learns only at its next renewal that its key is gone. Waiting callers make attempts
//! more often, so their answers tell the holder earlier.

use std::sync::Arc;

use crate::backend::Claim;
use crate::engine::Engine;
use crate::hold::Hold;
use crate::local_queue::LocalQueue;
use crate::state::LostReason;

/// The hold of this process before an attempt for its lock.
pub(crate) struct LocalHolder(Option<Arc<Hold>>);

impl LocalHolder {
    pub(crate) fn of(queue: &LocalQueue) -> Self {
        Self(queue.state().holder.as_ref().filter(|hold| !hold.is_over()).cloned())
    }

    /// The server, which alone decides, said that this `owner` has the lock of the queue. `None`:
    /// no owner has it, except that an attempt may just have acquired it.
    pub(crate) fn learn(self, engine: &Engine, queue: &LocalQueue, owner: Option<&str>) {
        let Some(hold) = self.0 else { return };
        // Each key of a hold has an owner of its own.
        let is_same = |claim: &Claim| claim.key == *queue.key() && claim.kind == queue.kind;
        let mut claims = hold.claims().enumerate();
        let Some((key_index, claim)) = claims.find(|(_, claim)| is_same(claim)) else { return };
        if owner == Some(claim.owner.as_str()) {
            return;
        }
        // The same hold before the attempt and after the answer: the server forgot it in between.
        let is_still = queue.state().holder.as_ref().is_some_and(|now| now.id == hold.id);
        if is_still {
            hold.lose_key(key_index, owner.map_or(LostReason::Expired, |_| LostReason::Stolen));
            // The hold is no longer listed.
            engine.scheduler().look_at(&hold);
        }
    }
}
