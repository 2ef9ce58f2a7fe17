//! The end of a completed body: its result is returned, whatever happened to the lease.

use crate::backend::Fault;
use crate::handoff::Ownership;
use crate::hold::Hold;
use crate::release::{ReleaseFuture, check_protection, warn_unprotected};
use crate::shield::tell;
use crate::state::Released;

/// Begins the release after a finished body. `None`: no answer is worth waiting for.
pub(crate) fn begin(ownership: Ownership) -> Option<ReleaseFuture> {
    if let Some(reason) = ownership.hold().lost() {
        warn_unprotected(ownership.hold(), &reason);
        return None;
    }
    Some(ownership.release())
}

/// Begins the release after a finished body, and does not wait for its answer. `Some`: the command
/// has left when the future resolves. `may_wait`: the caller can await that future.
pub(crate) fn in_background(ownership: Ownership, may_wait: bool) -> Option<ReleaseFuture> {
    if let Some(reason) = ownership.hold().lost() {
        warn_unprotected(ownership.hold(), &reason);
        return None;
    }
    ownership.release_in_background(may_wait)
}

/// Reports the answer, if it came. A failed release is not the caller's error: the work is done,
/// and the lock ends with its lease at the latest.
pub(crate) fn report(hold: &Hold, answer: Option<Result<Released, Fault>>) {
    let key = hold.claim.key.name();
    match answer {
        Some(Ok(released)) => check_protection(hold, released),
        Some(Err(fault)) => {
            let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            // The background reports it if its own attempts fail as well.
            tell!(debug, key, %nodes, "release unanswered; it goes on in the background");
        }
        None => tell!(warn, key, "release unanswered: the background thread stopped"),
    }
}
