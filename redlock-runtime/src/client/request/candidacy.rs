//! What leader election needs of a request.

use std::sync::Arc;

use super::LockRequest;
use crate::body::reentrancy::lookup;
use crate::engine::Engine;
use crate::error::{AlreadyHeldReason, LockError};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::Wait;

impl LockRequest {
    /// The request of a campaign that began after `shutdowns_before` shutdowns, which waits for as
    /// long as it takes.
    pub(in crate::client) fn of_candidate(self, shutdowns_before: u64) -> Self {
        Self { campaign: Some(shutdowns_before), ..self.wait(Wait::Forever) }
    }

    /// Finds the mistakes that every attempt would meet.
    pub(in crate::client) fn check(&self) -> Result<(), LockError> {
        self.policy.with(self.stated).map_err(|error| error.about(self.name()))?;
        self.key.as_ref().map_err(LockError::clone)?;
        self.engine.check_process()
    }

    /// Finds what cannot have a leader. Several keys are exclusive in any case.
    pub(in crate::client) fn check_lead(&self) -> Result<(), LockError> {
        if self.further.is_some() {
            return Ok(());
        }
        let kind = self.kind.clone().and_then(Kind::check_lead);
        kind.map_err(|error| error.about(self.name()))
    }

    pub(in crate::client) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The key, without the client's prefix.
    pub(in crate::client) fn name(&self) -> &str {
        self.key.as_ref().map_or("", LockKey::name)
    }

    pub(in crate::client) fn template(&self) -> &'static str {
        self.label
    }

    /// Fails where an acquire would re-enter a hold of the current task.
    pub(in crate::client) fn check_not_held(&self) -> Result<(), LockError> {
        let names = self.key.iter().chain(self.further.iter().flatten()).map(LockKey::name);
        match lookup::find_all(self.engine.id, names)? {
            Some(_) => Err(LockError::already_held(self.name(), AlreadyHeldReason::Leads)),
            None => Ok(()),
        }
    }
}
