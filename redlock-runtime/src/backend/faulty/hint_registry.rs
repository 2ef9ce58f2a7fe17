//! Who waits to be notified of a release on a faulty node.

use std::fmt;

use crate::backend::{Claim, OnRelease};

/// Who wants to be notified of a release.
#[derive(Default)]
pub(crate) struct HintRegistry {
    /// Whether the node gives release hints at all.
    pub(crate) is_on: bool,
    asked: Vec<(Claim, OnRelease)>,
}

impl fmt::Debug for HintRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HintRegistry").finish_non_exhaustive()
    }
}

impl HintRegistry {
    pub(super) fn add(&mut self, claim: &Claim, on_release: OnRelease) {
        self.asked.push((claim.clone(), on_release));
    }

    pub(super) fn remove(&mut self, claim: &Claim) {
        self.asked.retain(|(known, _)| known.owner != claim.owner);
    }

    /// The first who asked about this key, who is notified once only.
    pub(super) fn take(&mut self, redis_key: &str) -> Option<OnRelease> {
        let at = self.asked.iter().position(|(claim, _)| claim.key.redis_key() == redis_key)?;
        Some(self.asked.remove(at).1)
    }

    /// How many want to be notified.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.asked.len()
    }
}
