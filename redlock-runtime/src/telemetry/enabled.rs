//! Records metrics through the `metrics` facade: the program chooses the recorder. A recorder that
//! panics does no harm to the lock.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::announced;
use super::label::LockLabels;
use crate::shield::shielded;
use crate::state::LostReason;

/// A metric of one lock, which has the labels of the lock, and perhaps one more.
macro_rules! of_lock {
    ($metric:ident, $name:literal, $of:expr $(, $label:literal => $value:expr)?) => {
        $metric!(
            $name,
            "template" => $of.template, "kind" => $of.kind.label() $(, $label => $value)?
        )
    };
}

/// Describes each metric to the recorder. A recorder that is installed later gets no descriptions.
pub(crate) fn describe() {
    describe_counter!("redlock_attempts_total", "Calls that wanted a lock.");
    describe_counter!("redlock_acquire_total", "Calls that ended, by result.");
    describe_gauge!("redlock_waiting", "Calls that want a lock and have no answer yet.");
    describe_histogram!(
        "redlock_wait_seconds",
        Unit::Seconds,
        "How long calls waited until they were granted the lock."
    );
    describe_counter!(
        "redlock_acquire_commands_total",
        "Requests for a lock that were sent to Redis."
    );
    describe_gauge!("redlock_held", "Locks that are held.");
    describe_histogram!("redlock_hold_seconds", Unit::Seconds, "How long locks were held.");
    describe_counter!("redlock_renew_total", "Renewals, confirmed or not.");
    describe_histogram!(
        "redlock_renewal_lag_seconds",
        Unit::Seconds,
        "How much later than due renewals were sent."
    );
    describe_counter!("redlock_lost_total", "Leases that ended before their release, by reason.");
    describe_counter!("redlock_unprotected_total", "Bodies that finished without their lock.");
    describe_gauge!("redlock_node_up", "Whether the server answers: 1, or 0 in an outage.");
    describe_counter!(
        "redlock_node_doubts_total",
        "Times that a server may have forgotten leases."
    );
}

/// A call wants a lock.
pub(super) fn call(of: LockLabels) {
    shielded(|| {
        announced::locks(of);
        of_lock!(counter, "redlock_attempts_total", of).increment(1);
        of_lock!(gauge, "redlock_waiting", of).increment(1.0);
    });
}

/// The call has ended. `waited`: how long, if it was granted the lock.
pub(super) fn call_ended(of: LockLabels, result: &'static str, waited: Option<Duration>) {
    shielded(|| {
        of_lock!(gauge, "redlock_waiting", of).decrement(1.0);
        of_lock!(counter, "redlock_acquire_total", of, "result" => result).increment(1);
        if let Some(waited) = waited {
            of_lock!(histogram, "redlock_wait_seconds", of).record(waited.as_secs_f64());
        }
    });
}

/// One acquire command to the backend.
pub(crate) fn acquire_sent(template: &'static str) {
    shielded(|| {
        counter!("redlock_acquire_commands_total", "template" => template).increment(1);
    });
}

/// A hold began.
pub(crate) fn held(of: LockLabels) {
    shielded(|| of_lock!(gauge, "redlock_held", of).increment(1.0));
}

/// A hold ended, in whatever way.
pub(crate) fn ended(of: LockLabels, held_for: Duration) {
    shielded(|| {
        of_lock!(gauge, "redlock_held", of).decrement(1.0);
        of_lock!(histogram, "redlock_hold_seconds", of).record(held_for.as_secs_f64());
    });
}

/// A lease was lost.
pub(crate) fn lost(of: LockLabels, reason: LostReason) {
    shielded(|| {
        let Some(reason) = announced::label(reason) else { return };
        of_lock!(counter, "redlock_lost_total", of, "reason" => reason).increment(1);
    });
}

/// A renewal was confirmed, or failed.
pub(crate) fn renewal(template: &'static str, is_confirmed: bool) {
    shielded(|| {
        let result = if is_confirmed { "renewed" } else { "unconfirmed" };
        counter!("redlock_renew_total", "template" => template, "result" => result).increment(1);
    });
}

/// How late a renewal was sent.
pub(crate) fn renewal_lag(lag: Duration) {
    shielded(|| {
        histogram!("redlock_renewal_lag_seconds").record(lag.as_secs_f64());
    });
}

/// A body finished after its lease had been lost.
pub(crate) fn unprotected(template: &'static str) {
    shielded(|| {
        counter!("redlock_unprotected_total", "template" => template).increment(1);
    });
}

/// Whether a node answers.
pub(super) fn show_node(node: &str, value: f64) {
    shielded(|| {
        announced::node(node);
        gauge!("redlock_node_up", "node" => node.to_owned()).set(value);
    });
}

/// A node may have forgotten leases that it granted.
pub(crate) fn node_doubted(node: &str, cause: &'static str) {
    shielded(|| {
        let node = node.to_owned();
        counter!("redlock_node_doubts_total", "node" => node, "cause" => cause).increment(1);
    });
}
