//! The end of a completed body: its result is returned, whatever happened to the lease.

use crate::backend::Fault;
use crate::handoff::Ownership;
use crate::hold::Hold;
use crate::release::ReleaseFuture;
use crate::report::Topic;
use crate::shield::tell;
use crate::state::Released;
use crate::{executor, telemetry};

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
    // Without a wait, the drop of `ownership` sends the release from the background thread.
    if may_wait { ownership.release_in_background() } else { None }
}

/// Reports the answer, if it came. A failed release is not the caller's error: the work is done,
/// and the lock ends with its lease at the latest.
pub(crate) fn report(hold: &Hold, answer: Option<Result<Released, Fault>>) {
    let key = hold.claim.key.name();
    match answer {
        // An unknown outcome is not reported as a loss.
        Some(Ok(Released::Released | Released::Unknown)) => {}
        Some(Ok(Released::Expired)) => warn_unprotected(hold, &"the key was gone"),
        Some(Ok(Released::Stolen)) => warn_unprotected(hold, &"another owner holds the key"),
        Some(Err(fault)) => {
            let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            // The background reports it if its own attempts fail as well.
            tell!(debug, key, %nodes, "release unanswered; it goes on in the background");
        }
        None => tell!(warn, key, "release unanswered: the background thread stopped"),
    }
}

fn warn_unprotected(hold: &Hold, reason: &dyn std::fmt::Display) {
    const WHAT: &str =
        "the body finished, but its lock had been lost before; its last steps were not protected";
    telemetry::unprotected(hold.template);
    let (key, template, fencing_token) = (hold.claim.key.name(), hold.template, hold.fencing_token);
    let (held_for, renewals) = (hold.held_for(), hold.renewals());
    if executor::admits(&hold.reports, Topic::Unprotected, template) {
        tell!(warn, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    } else {
        tell!(debug, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    }
}
