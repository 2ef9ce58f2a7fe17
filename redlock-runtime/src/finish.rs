//! The end of a body that ran to its end: its result stands, whatever became of the lease.

use crate::backend::Fault;
use crate::release::{Answer, Ownership};
use crate::renewal::Hold;
use crate::state::Released;
use crate::telemetry;

/// Begins the release behind a finished body. `None`: there is no answer worth waiting for.
pub(crate) fn begin(ownership: Ownership) -> Option<Answer> {
    if let Some(reason) = ownership.hold().lost() {
        warn_unprotected(ownership.hold(), &reason);
        return None;
    }
    Some(ownership.release())
}

/// Begins the release behind a finished body, and does not wait for its answer.
pub(crate) fn in_background(ownership: Ownership) {
    match ownership.hold().lost() {
        Some(reason) => warn_unprotected(ownership.hold(), &reason),
        None => ownership.release_in_background(),
    }
}

/// Reports the answer, when it came. A release that failed is not the caller's error: its work is
/// done, and the lock ends with its lease at the latest.
pub(crate) fn report(hold: &Hold, answer: Option<Result<Released, Fault>>) {
    let key = hold.claim.key.name();
    match answer {
        Some(Ok(Released::Released)) => {}
        Some(Ok(Released::Expired)) => warn_unprotected(hold, &"the key was gone"),
        Some(Ok(Released::Stolen)) => warn_unprotected(hold, &"another owner holds the key"),
        Some(Err(fault)) => {
            let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::warn!(key, %nodes, "release unanswered; it goes on in the background");
        }
        None => tracing::warn!(key, "release unanswered: the background thread stopped"),
    }
}

fn warn_unprotected(hold: &Hold, reason: &dyn std::fmt::Display) {
    telemetry::unprotected(hold.template);
    tracing::warn!(
        key = hold.claim.key.name(),
        %reason,
        held_for = ?hold.held_for(),
        renewals = hold.renewals(),
        fencing_token = %hold.fencing_token,
        "the body finished, but its lock had been lost before; its last steps were not protected"
    );
}
