//! The waiters of a faulty node that want to be notified of a release.

use std::time::Duration;

use super::fate::meet;
use super::node::FaultyNode;
use super::script::Command;
use crate::backend::{Claim, Found, HintRegistration, OnRelease, ReleaseHints, Reply};

impl FaultyNode {
    /// Tells the first who wants to know of it that a key is free.
    pub(crate) fn tell(&self, redis_key: &str) {
        let first = self.state().registry.take(redis_key);
        if let Some(on_release) = first {
            on_release();
        }
    }
}

impl ReleaseHints for FaultyNode {
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        on_release: OnRelease,
        within: Duration,
    ) -> Reply<'a, HintRegistration> {
        self.note("request_hint", claim);
        let fate = self.state().script.standing(Command::Any);
        Box::pin(meet(&self.name, fate, within, async move {
            if self.store.owner(claim.key.redis_key()).is_some() {
                self.state().registry.add(claim, on_release);
            } else {
                on_release();
            }
            Ok(HintRegistration::default())
        }))
    }

    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        self.note("cancel_hint", claim);
        let fate = self.state().script.standing(Command::Any);
        Box::pin(meet(&self.name, fate, within, async move {
            self.state().registry.remove(claim);
            Ok(Found::Gone)
        }))
    }
}
