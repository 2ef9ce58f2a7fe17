//! Through the `metrics` facade: the program chooses the recorder.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::error::LockError;
use crate::state::LostReason;

/// One question to the backend.
pub(crate) fn attempt(template: &'static str) {
    counter!("redlock_attempts_total", "template" => template).increment(1);
}

/// A lock was granted.
pub(crate) fn acquired(template: &'static str, waited: Duration) {
    counter!("redlock_acquire_total", "template" => template, "result" => "acquired").increment(1);
    histogram!("redlock_wait_seconds", "template" => template).record(waited.as_secs_f64());
}

/// A call ended without its lock.
pub(crate) fn not_acquired(template: &'static str, error: &LockError) {
    let result = match error {
        LockError::Timeout { .. } => "timeout",
        LockError::Unavailable { .. } => "unavailable",
        LockError::TooManyWaiters { .. } => "too_many_waiters",
        _ => "error",
    };
    counter!("redlock_acquire_total", "template" => template, "result" => result).increment(1);
}

/// A hold began.
pub(crate) fn held(template: &'static str) {
    gauge!("redlock_held", "template" => template).increment(1.0);
}

/// A hold ended, in whatever way.
pub(crate) fn ended(template: &'static str, held_for: Duration) {
    gauge!("redlock_held", "template" => template).decrement(1.0);
    histogram!("redlock_hold_seconds", "template" => template).record(held_for.as_secs_f64());
}

/// A lease was lost.
pub(crate) fn lost(template: &'static str, reason: LostReason) {
    let reason = match reason {
        LostReason::RenewalLimit => "renewal_limit",
        LostReason::Expired => "expired",
        LostReason::Stolen => "stolen",
        LostReason::Unreachable => "unreachable",
    };
    counter!("redlock_lost_total", "template" => template, "reason" => reason).increment(1);
}

/// A renewal was confirmed, or not.
pub(crate) fn renewal(template: &'static str, is_confirmed: bool) {
    let result = if is_confirmed { "renewed" } else { "unconfirmed" };
    counter!("redlock_renew_total", "template" => template, "result" => result).increment(1);
}

/// How late a renewal was sent.
pub(crate) fn renewal_lag(lag: Duration) {
    histogram!("redlock_renewal_lag_seconds").record(lag.as_secs_f64());
}

/// A body finished after its lease had been lost.
pub(crate) fn unprotected(template: &'static str) {
    counter!("redlock_unprotected_total", "template" => template).increment(1);
}

/// A node may have forgotten leases that it granted.
pub(crate) fn node_doubted(node: &str, cause: &'static str) {
    let node = node.to_owned();
    counter!("redlock_node_doubts_total", "node" => node, "cause" => cause).increment(1);
}
