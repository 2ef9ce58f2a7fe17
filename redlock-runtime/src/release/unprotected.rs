//! The report of what the release after a finished body found: its lock may have been lost.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::Fault;
use crate::hold::Hold;
use crate::report::Topic;
use crate::shield::tell;
use crate::state::Released;
use crate::{executor, telemetry};

/// The hold of a body that has finished. Its releases report what they find by themselves.
#[derive(Debug, Clone)]
pub(crate) struct FinishedBody {
    hold: Arc<Hold>,
    /// Set for a hold of several keys, which have a release each: the body is reported once.
    is_reported: Option<Arc<AtomicBool>>,
}

impl FinishedBody {
    pub(crate) fn new(hold: &Arc<Hold>, has_several_keys: bool) -> Self {
        let is_reported = has_several_keys.then(Arc::default);
        Self { hold: Arc::clone(hold), is_reported }
    }

    /// A release has found this.
    pub(super) fn check(&self, released: Released) {
        let is_loss = matches!(released, Released::Expired | Released::Stolen);
        let is_first = |told: &Arc<AtomicBool>| !told.swap(true, Ordering::Relaxed);
        if is_loss && self.is_reported.as_ref().is_none_or(is_first) {
            check_protection(&self.hold, released);
        }
    }
}

/// Reports the answer, if it came. A failed release is not the caller's error: the work is done,
/// and the lock ends with its lease at the latest.
pub(crate) fn report(hold: &Hold, answer: Option<Result<Released, Fault>>) {
    let key = hold.claim.key.name();
    match answer {
        Some(Ok(released)) => check_protection(hold, released),
        Some(Err(fault)) => {
            let nodes = fault.nodes_text();
            // The background reports it if its own attempts fail as well.
            tell!(debug, key, %nodes, "release unanswered; it goes on in the background");
        }
        None => tell!(warn, key, "release unanswered: the background thread stopped"),
    }
}

/// Reports what the release after a finished body found, if the body was not protected to its end.
/// An unknown outcome is not reported as a loss.
fn check_protection(hold: &Hold, released: Released) {
    match released {
        Released::Released | Released::Unknown => {}
        Released::Expired => warn_unprotected(hold, &"the key was gone"),
        Released::Stolen => warn_unprotected(hold, &"another owner holds the key"),
    }
}

/// The body has finished, and its lock had been lost before.
pub(crate) fn warn_unprotected(hold: &Hold, reason: &dyn Display) {
    const WHAT: &str =
        "the body finished, but its lock had been lost before; its last steps were not protected";
    telemetry::unprotected(hold.terms.template);
    let (key, template, fencing_token) =
        (hold.claim.key.name(), hold.terms.template, hold.fencing_token);
    let (held_for, renewals) = (hold.held_for(), hold.renewals());
    if executor::admits(&hold.client.reports, Topic::Unprotected, template) {
        tell!(warn, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    } else {
        tell!(debug, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    }
}
