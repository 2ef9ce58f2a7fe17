//! Counters that are shown before they count.

use std::cell::RefCell;
use std::collections::HashSet;

use metrics::counter;

use super::label::LockLabels;
use crate::state::LostReason;

/// What `redlock_lost_total` tells apart.
const REASONS: [LostReason; 4] =
    [LostReason::RenewalLimit, LostReason::Expired, LostReason::Stolen, LostReason::Unreachable];
/// The results of calls that alerts look at.
const RESULTS: [&str; 5] = ["acquired", "timeout", "unavailable", "too_many_waiters", "error"];
/// Why a server may have forgotten leases.
const CAUSES: [&str; 4] = ["restarted", "replaced", "clock_jumped", "clock_differs"];

thread_local! {
    /// The templates and kinds of the calls of this thread.
    static KNOWN: RefCell<HashSet<(&'static str, &'static str)>> = RefCell::default();
}

/// Shows, as zero, what alerts count of the locks `of`. A counter that first appears as 1 would
/// hide the first loss: `increase()` of Prometheus needs a sample before it.
///
/// Once for each thread: a set of the process would be one more mutex in the path of every call,
/// and to add zero again changes nothing.
pub(super) fn locks(of: LockLabels) {
    let (template, kind) = (of.template, of.kind.label());
    let is_new = KNOWN.try_with(|known| known.borrow_mut().insert((template, kind)));
    if is_new == Ok(true) {
        show(template, kind);
    }
}

#[cold]
fn show(template: &'static str, kind: &'static str) {
    for reason in REASONS.into_iter().filter_map(label) {
        counter!(
            "redlock_lost_total", "template" => template, "kind" => kind, "reason" => reason
        )
        .increment(0);
    }
    for result in RESULTS {
        counter!(
            "redlock_acquire_total", "template" => template, "kind" => kind, "result" => result
        )
        .increment(0);
    }
    for result in ["renewed", "unconfirmed"] {
        counter!("redlock_renew_total", "template" => template, "result" => result).increment(0);
    }
    counter!("redlock_unprotected_total", "template" => template).increment(0);
}

/// The same for a server.
pub(super) fn node(node: &str) {
    for cause in CAUSES {
        counter!("redlock_node_doubts_total", "node" => node.to_owned(), "cause" => cause)
            .increment(0);
    }
}

/// The value of the label `reason`; `None`: the lease was not lost.
pub(super) fn label(reason: LostReason) -> Option<&'static str> {
    match reason {
        LostReason::RenewalLimit => Some("renewal_limit"),
        LostReason::Expired => Some("expired"),
        LostReason::Stolen => Some("stolen"),
        LostReason::Unreachable => Some("unreachable"),
        // The process that holds a lock still has it when a child was forked.
        LostReason::Released | LostReason::OuterReleased | LostReason::Forked => None,
    }
}
