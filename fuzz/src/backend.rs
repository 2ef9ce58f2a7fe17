//! As much of the runtime's `backend` as the decoders of replies refer to.

#[path = "../../redlock-runtime/src/backend/claim.rs"]
mod claim;
#[path = "../../redlock-runtime/src/backend/downgrade.rs"]
mod downgrade;
#[path = "../../redlock-runtime/src/backend/fifo_queue.rs"]
mod fifo_queue;
#[path = "../../redlock-runtime/src/backend/outcome.rs"]
mod outcome;
pub(crate) mod redis;
#[path = "../../redlock-runtime/src/backend/several.rs"]
mod several;
#[path = "../../redlock-runtime/src/backend/tokens.rs"]
mod tokens;

use std::time::Duration;

use deadpool_redis::redis::Value;

pub(crate) use claim::{Claim, Release};
pub(crate) use downgrade::{Downgrade, Downgraded};
pub(crate) use fifo_queue::{Enqueued, Look, Position, Rotated};
pub(crate) use outcome::{Acquired, Fault, Found};
pub(crate) use several::{AcquireAll, AllAcquired};
pub(crate) use tokens::{FencingTokens, TokensUsed};

use redis::commands::exclusive::{self, acquire, enqueue, nudge, raise, release, renew, rotate};
use redis::commands::{reply, shared};

pub(crate) fn acquired(value: &Value) -> Option<(Acquired, i64)> {
    acquire::decode(value).map(|answer| (answer.found, answer.micros))
}

pub(crate) fn renewed(value: &Value, leases: usize) -> Option<(Vec<Found>, i64)> {
    renew::decode(value, leases).map(|answer| (answer.found, answer.micros))
}

pub(crate) fn time(value: &Value) -> Option<i64> {
    reply::time(value)
}

pub(crate) fn found(value: &Value) -> Option<Found> {
    raise::decode(value)
}

/// What a release found, and whether it handed the lock over.
pub(crate) fn released(value: &Value) -> Option<(Found, bool)> {
    release::decode(value)
}

/// Decoders of several keys and of shared kinds that only must not panic.
pub(crate) fn of_others(value: &Value, locks: usize) -> Option<AllAcquired> {
    let _ = shared::acquire::decode(value);
    if let Ok(answers) = exclusive::batch::decode(value.clone(), locks) {
        assert_eq!(answers.len(), locks, "each caller has an answer: {value:?}");
    }
    let _ = shared::downgrade::decode(value);
    exclusive::acquire_all::decode(value, locks).map(|answer| answer.found)
}

/// Decoders that only must not panic.
pub(crate) fn queued(
    value: &Value,
) -> (Option<Enqueued>, Option<Rotated>, Option<(Option<Duration>, u64)>) {
    let enqueued = enqueue::decode(value).map(|answer| answer.found);
    let rotated = rotate::decode(value).map(|answer| answer.found);
    (enqueued, rotated, nudge::decode(value))
}
