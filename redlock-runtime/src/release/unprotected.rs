//! The report of a body that finished although its lock had been lost.

use std::fmt::Display;

use crate::hold::Hold;
use crate::report::Topic;
use crate::shield::tell;
use crate::state::Released;
use crate::{executor, telemetry};

/// Reports what the release after a finished body found, if the body was not protected to its end.
/// An unknown outcome is not reported as a loss.
pub(crate) fn check_protection(hold: &Hold, released: Released) {
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
    telemetry::unprotected(hold.template);
    let (key, template, fencing_token) = (hold.claim.key.name(), hold.template, hold.fencing_token);
    let (held_for, renewals) = (hold.held_for(), hold.renewals());
    if executor::admits(&hold.reports, Topic::Unprotected, template) {
        tell!(warn, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    } else {
        tell!(debug, key, template, %reason, ?held_for, renewals, %fencing_token, "{WHAT}");
    }
}
