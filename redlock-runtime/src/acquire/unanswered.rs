//! A command on its way, until its answer has come.

use std::sync::Arc;

use crate::backend::Claim;
use crate::engine::Engine;
use crate::release;

/// A command whose answer is not known yet. Unless it is `answered`, its drop cleans up: its caller
/// has gone, or what was sent of it may still arrive.
pub(super) struct Unanswered<'a> {
    engine: &'a Arc<Engine>,
    claims: &'a [Claim],
    may_be_queued: bool,
}

impl<'a> Unanswered<'a> {
    pub(super) fn new(engine: &'a Arc<Engine>, claims: &'a [Claim]) -> Self {
        Self { engine, claims, may_be_queued: false }
    }

    /// A command whose owners may stand in the queue of the server.
    pub(super) fn queued(engine: &'a Arc<Engine>, claims: &'a [Claim]) -> Self {
        Self { engine, claims, may_be_queued: true }
    }

    pub(super) fn answered(mut self) {
        self.claims = &[];
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        for claim in self.claims {
            release::clean_up(self.engine, claim.clone(), self.may_be_queued);
        }
    }
}
