//! The parts of replies that several commands share.

use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::redis::commands::reply::text;
use crate::backend::{FencingTokens, Found, Position};
use crate::fencing::FencingToken;

/// Which owner a command found.
pub(super) fn found(value: &Value) -> Option<Found> {
    match value {
        Value::Int(1) => Some(Found::Ours),
        Value::Int(0) => Some(Found::Gone),
        Value::Int(-1) => Some(Found::Stolen),
        _ => None,
    }
}

pub(super) fn fencing_tokens(first: &Value, last: &Value) -> Option<FencingTokens> {
    Some(FencingTokens { first: fencing_token(first)?, last: fencing_token(last)? })
}

fn fencing_token(value: &Value) -> Option<FencingToken> {
    FencingToken::new(text(value)?.parse().ok()?)
}

/// A position in the queue. Fencing tokens are never below the server's time, in microseconds.
pub(super) fn position(
    millis: &Value,
    ahead: &Value,
    is_signalled: &Value,
    micros: i64,
) -> Option<Position> {
    let (Value::Int(millis), Value::Int(ahead)) = (millis, ahead) else { return None };
    let free_in = u64::try_from(*millis).ok().map(Duration::from_millis);
    let ahead = u32::try_from(*ahead).ok()?;
    let token_floor = FencingToken::new(u64::try_from(micros).ok()?)?;
    Some(Position { free_in, ahead, is_signalled: *is_signalled == Value::Int(1), token_floor })
}
