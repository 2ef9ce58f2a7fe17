//! One attempt to acquire a lock, and what follows from its answer.

use std::sync::Arc;
use std::time::Duration;

use super::unanswered::Unanswered;
use crate::backend::{Acquired, Busy, Claim, Fault, LockBackend};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{ConfirmedLease, Tenure};
use crate::telemetry;

/// How much later than the end of its `wait` a call may end: so long it waits for the answer to its
/// last attempt.
pub(super) const LAST_ATTEMPT: Duration = Duration::from_millis(250);

/// Why an attempt was not granted the lock.
pub(super) enum Ungranted {
    /// Another owner has the lock.
    Busy {
        answer: Busy,
        /// The owner value must not be used again: its clean-up is under way.
        is_spent: bool,
    },
    /// The attempt failed. If the outcome is unknown, the owner value must not be used again
    /// either.
    Failed(Fault),
}

/// Sends one acquire command. `route` leads to the engine's backend. `sent`: read before, as the
/// server may begin the lease as soon as the command has left. The caller counts it as pending,
/// until it has dealt with what was granted.
///
/// Cancel safe: if the future is dropped, whatever the command acquired is freed in the background.
pub(super) async fn attempt(
    engine: &Arc<Engine>,
    route: &dyn LockBackend,
    claim: &Claim,
    template: &'static str,
    sent: Moment,
    within: Duration,
) -> Result<Tenure, Ungranted> {
    telemetry::acquire_sent(template);
    let unanswered = Unanswered::new(engine, std::slice::from_ref(claim));
    let answer = route.acquire(claim, within).await;
    match answer {
        Ok(Acquired::Granted { fencing_tokens, was_cut }) => {
            unanswered.answered();
            let confirmed = ConfirmedLease { sent, lease: claim.expire };
            let tenure = Tenure::new(claim.clone(), confirmed, fencing_tokens);
            Ok(if was_cut { tenure.cut() } else { tenure })
        }
        Ok(Acquired::Refused { holder, free_in, was_cut, is_split }) => {
            let answer = Busy { holder, free_in, is_split };
            Err(Ungranted::Busy { answer, is_spent: was_cut }.noted(unanswered))
        }
        Err(fault) => Err(Ungranted::Failed(fault).noted(unanswered)),
    }
}

impl Ungranted {
    /// Keeps what is `unanswered` from a clean-up, unless a command of this owner may still arrive.
    #[cold]
    fn noted(self, unanswered: Unanswered<'_>) -> Self {
        let may_arrive = match &self {
            Self::Busy { is_spent, .. } => *is_spent,
            Self::Failed(fault) => fault.is_unknown,
        };
        if !may_arrive {
            unanswered.answered();
        }
        self
    }
}
