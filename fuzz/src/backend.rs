//! As much of the runtime's `backend` as the decoder of replies refers to.

#[path = "../../redlock-runtime/src/backend/outcome.rs"]
mod outcome;
#[path = "../../redlock-runtime/src/backend/redis/reply.rs"]
mod reply;

pub(crate) use outcome::{Acquired, Found};

use deadpool_redis::redis::Value;

pub(crate) fn acquired(value: &Value) -> Option<(Acquired, i64)> {
    reply::acquired(value).map(|answer| (answer.found, answer.micros))
}

pub(crate) fn renewed(value: &Value, leases: usize) -> Option<(Vec<Found>, i64)> {
    reply::renewed(value, leases).map(|answer| (answer.found, answer.micros))
}

pub(crate) fn time(value: &Value) -> Option<i64> {
    reply::time(value)
}

pub(crate) fn found(value: &Value) -> Option<Found> {
    reply::found(value)
}
