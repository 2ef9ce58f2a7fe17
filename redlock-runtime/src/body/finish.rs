//! The end of a body that ran to its end: its result stands, whatever became of the lease.

use crate::backend::Fault;
use crate::handoff::Ownership;
use crate::hold::Hold;
use crate::release::ReleaseFuture;
use crate::report::Kind;
use crate::shield::tell;
use crate::state::Released;
use crate::{executor, telemetry};

/// Begins the release behind a finished body. `None`: there is no answer worth waiting for.
pub(crate) fn begin(ownership: Ownership) -> Option<ReleaseFuture> {
    if let Some(reason) = ownership.hold().lost() {
        warn_unprotected(ownership.hold(), &reason);
        return None;
    }
    Some(ownership.release())
}

/// Begins the release behind a finished body, and does not wait for its answer. `Some`: the command
/// has left when this resolves; only where the caller `may_wait` for that.
pub(crate) fn in_background(ownership: Ownership, may_wait: bool) -> Option<ReleaseFuture> {
    if let Some(reason) = ownership.hold().lost() {
        warn_unprotected(ownership.hold(), &reason);
        return None;
    }
    // Its drop sends it from the background thread, which waits for nobody.
    if may_wait { ownership.release_in_background() } else { None }
}

/// Reports the answer, when it came. A release that failed is not the caller's error: its work is
/// done, and the lock ends with its lease at the latest.
pub(crate) fn report(hold: &Hold, answer: Option<Result<Released, Fault>>) {
    let key = hold.claim.key.name();
    match answer {
        // What is not known is not told as a loss.
        Some(Ok(Released::Released | Released::Unknown)) => {}
        Some(Ok(Released::Expired)) => warn_unprotected(hold, &"the key was gone"),
        Some(Ok(Released::Stolen)) => warn_unprotected(hold, &"another owner holds the key"),
        Some(Err(fault)) => {
            let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            // The background tells of it if that fails as well.
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
    if executor::admits(&hold.reports, Kind::Unprotected, template) {
        tell!(warn, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    } else {
        tell!(debug, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    }
}
