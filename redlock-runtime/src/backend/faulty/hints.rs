//! The waiters of a faulty node that want to be notified of a release.

use std::time::Duration;

use super::fate::meet;
use super::node::FaultyNode;
use super::script::Command;
use crate::backend::{Claim, Found, HintRegistration, OnRelease, ReleaseHints, Reply};

impl ReleaseHints for FaultyNode {
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        on_release: OnRelease,
        within: Duration,
    ) -> Reply<'a, HintRegistration> {
        self.note("request_hint", claim);
        let fate = self.state().script.standing(Command::Any);
        let run = async move { self.memory.request_hint(claim, on_release, within).await };
        Box::pin(meet(&self.name, fate, within, run))
    }

    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        self.note("cancel_hint", claim);
        let fate = self.state().script.standing(Command::Any);
        let run = async move { self.memory.cancel_hint(claim, within).await };
        Box::pin(meet(&self.name, fate, within, run))
    }
}
