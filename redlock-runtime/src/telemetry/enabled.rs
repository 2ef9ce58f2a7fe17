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

/// Describes each metric to the recorder. A recorder that is installed later gets no descriptions.
pub(crate) fn describe() {
    describe_counter!("redlock_attempts_total", "Calls that wanted a lock.");
    describe_counter!("redlock_acquire_total", "Calls that ended, by what came of them.");
    describe_gauge!("redlock_waiting", "Calls that want a lock and have no answer yet.");
    describe_histogram!("redlock_wait_seconds", Unit::Seconds, "From a call to its lock.");
    describe_counter!(
        "redlock_acquire_commands_total",
        "Requests for a lock that were sent to Redis."
    );
    describe_gauge!("redlock_held", "Locks that are held.");
    describe_histogram!("redlock_hold_seconds", Unit::Seconds, "From a lock to its end.");
    describe_counter!("redlock_renew_total", "Renewals, confirmed or not.");
    describe_histogram!("redlock_renewal_lag_seconds", Unit::Seconds, "How late renewals began.");
    describe_counter!("redlock_lost_total", "Leases that ended before their release, by reason.");
    describe_counter!("redlock_unprotected_total", "Bodies that finished without their lock.");
    describe_gauge!("redlock_node_up", "Whether the server answers: 1, or 0 in an outage.");
    describe_counter!("redlock_node_doubts_total", "Servers that may have forgotten leases.");
}

/// A call wants a lock.
pub(super) fn call(of: LockLabels) {
    shielded(|| {
        announced::locks(of);
        counter!("redlock_attempts_total", "template" => of.template, "kind" => of.kind.label())
            .increment(1);
        gauge!("redlock_waiting", "template" => of.template, "kind" => of.kind.label())
            .increment(1.0);
    });
}

/// The call has ended. `waited`: for so long, if it was granted the lock.
pub(super) fn call_ended(of: LockLabels, result: &'static str, waited: Option<Duration>) {
    let LockLabels { template, kind } = of;
    let kind = kind.label();
    shielded(|| {
        gauge!("redlock_waiting", "template" => template, "kind" => kind).decrement(1.0);
        let ended = counter!(
            "redlock_acquire_total", "template" => template, "kind" => kind, "result" => result
        );
        ended.increment(1);
        if let Some(waited) = waited {
            histogram!("redlock_wait_seconds", "template" => template, "kind" => kind)
                .record(waited.as_secs_f64());
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
    shielded(|| {
        gauge!("redlock_held", "template" => of.template, "kind" => of.kind.label()).increment(1.0);
    });
}

/// A hold ended, in whatever way.
pub(crate) fn ended(of: LockLabels, held_for: Duration) {
    shielded(|| {
        gauge!("redlock_held", "template" => of.template, "kind" => of.kind.label()).decrement(1.0);
        histogram!("redlock_hold_seconds", "template" => of.template, "kind" => of.kind.label())
            .record(held_for.as_secs_f64());
    });
}

/// A lease was lost.
pub(crate) fn lost(of: LockLabels, reason: LostReason) {
    shielded(|| {
        let Some(reason) = announced::label(reason) else { return };
        let (template, kind) = (of.template, of.kind.label());
        counter!("redlock_lost_total", "template" => template, "kind" => kind, "reason" => reason)
            .increment(1);
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

/// A node answers, or does not any more.
pub(crate) fn node_up(node: &str, is_up: bool) {
    shielded(|| {
        announced::node(node);
        let value = if is_up { 1.0 } else { 0.0 };
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
