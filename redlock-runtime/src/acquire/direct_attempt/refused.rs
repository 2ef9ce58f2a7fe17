//! What a direct attempt has shown that was not granted.

use std::sync::Arc;

use super::DirectAttempt;
use crate::acquire::attempt::Ungranted;
use crate::acquire::endless::warn_if_endless;
use crate::acquire::observed::{CallTime, Observed};
use crate::backend::Claim;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::NotHeld;
use crate::hold::Terms;

impl DirectAttempt {
    /// What an attempt without a grant showed. `Err`: no further one can help.
    #[cold]
    pub(super) fn not_granted(
        &self,
        engine: &Arc<Engine>,
        terms: &Terms,
        claim: &Claim,
        why: Ungranted,
    ) -> Result<Observed, LockError> {
        let (mut observed, now) = (Observed::default(), engine.clock().now());
        match why {
            Ungranted::Busy { answer, .. } => {
                observed.busy(answer, now);
                warn_if_endless(engine, &claim.key, terms.template, &observed);
            }
            Ungranted::Failed(fault) => {
                let is_final = fault.is_final;
                observed.failed(fault, self.begun);
                if is_final {
                    let time = CallTime { started: terms.started, now };
                    return Err(observed.error(&claim.key, time, self.number, None));
                }
            }
        }
        Ok(observed)
    }

    /// The same of a grant that did not reach the caller.
    #[cold]
    pub(super) fn not_held(terms: &Terms, why: NotHeld) -> Result<Observed, LockError> {
        match why {
            NotHeld::Unscheduled(error) => Err(error),
            NotHeld::TooLate { took } => {
                let mut observed = Observed::default();
                observed.too_late(took, terms.expire);
                Ok(observed)
            }
        }
    }
}
