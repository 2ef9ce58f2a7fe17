//! A call inside of a hold of its own task: it re-enters the hold, or fails.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Stage, WHAT};
use crate::after_completion::after_completion;
use crate::body::{Reenterable, Reentry};
use crate::call::spec::Spec;
use crate::engine::Engine;
use crate::error::{AlreadyHeldReason, LockError};
use crate::kind::Kind;
use crate::options::Policy;

impl Stage {
    /// The task holds what the call wants.
    pub(super) fn begin_within(
        &mut self,
        spec: Spec,
        held: Reenterable,
        kind: Kind,
        key: &str,
        engine: &Arc<Engine>,
        policy: Policy,
    ) -> Result<(), LockError> {
        if !spec.is_reentrant {
            return Err(LockError::already_held(key, AlreadyHeldReason::NotReentrant));
        }
        held.check_kind(kind, key)?;
        if let Some(reentry) = held.enter_now() {
            self.reenter(spec, reentry);
        } else {
            let entering = held.wait_for_turn(engine, policy.wait(), key);
            *self = Self::Entering { spec, entering };
        }
        Ok(())
    }

    /// Ready when the call has its turn inside of the hold.
    #[cold]
    pub(super) fn poll_entering(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        let Self::Entering { spec, entering } = self else { after_completion(WHAT) };
        let (entered, spec) = (ready!(Pin::new(entering).poll(cx)), *spec);
        *self = Self::Done;
        self.reenter(spec, entered?);
        Poll::Ready(Ok(()))
    }

    fn reenter(&mut self, spec: Spec, reentry: Reentry) {
        let link = Arc::clone(reentry.link());
        self.hold_for_body(spec, link, Duration::ZERO, None, Some(reentry));
    }
}
