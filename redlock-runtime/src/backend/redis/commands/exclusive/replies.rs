//! The parts of replies that several commands share.

use std::num::NonZeroU32;
use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::redis::commands::reply::text;
use crate::backend::redis::commands::shared::words;
use crate::backend::{FencingTokens, Found, Position};
use crate::fencing::FencingToken;
use crate::kind::{Kind, shown_group};

/// Which owner a command found.
pub(in crate::backend::redis::commands) fn found(value: &Value) -> Option<Found> {
    match value {
        Value::Int(1) => Some(Found::Ours),
        Value::Int(0) => Some(Found::Gone),
        Value::Int(-1) => Some(Found::Stolen),
        _ => None,
    }
}

pub(in crate::backend::redis::commands) fn fencing_tokens(
    first: &Value,
    last: &Value,
) -> Option<FencingTokens> {
    Some(FencingTokens { first: fencing_token(first)?, last: fencing_token(last)? })
}

fn fencing_token(value: &Value) -> Option<FencingToken> {
    FencingToken::new(text(value)?.parse().ok()?)
}

/// What `PTTL` says of a key that does not exist.
const NO_KEY: i64 = -2;

/// The holder of a lock that is refused: its owner value, or the group that the marker of a shared
/// kind stands for, with the number of its members or without. `Some(None)`: nobody holds it, and
/// somebody else comes first. `millis`: what is left of the lease.
pub(in crate::backend::redis::commands) fn holder(
    millis: i64,
    value: &Value,
) -> Option<Option<String>> {
    if millis == NO_KEY {
        return Some(None);
    }
    let text = text(value)?;
    let (marker, count) = match text.split_once(' ') {
        Some((marker, count)) => (marker, Some(count.parse())),
        None => (&*text, None),
    };
    let kind = [Kind::Read, Kind::Permits(NonZeroU32::MIN)]
        .into_iter()
        .find(|kind| words::marker(*kind) == marker);
    Some(Some(match (kind, count.transpose()) {
        (Some(kind), Ok(count)) => shown_group(kind, count),
        // An owner value begins with the name of its client, which may be any text.
        _ => text,
    }))
}

/// When a holder's lease ends; `None`: its key has no expiry.
pub(in crate::backend::redis::commands) fn free_in(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// A position in the queue. Fencing tokens are never below the server's time, in microseconds.
pub(in crate::backend::redis::commands) fn position(
    millis: i64,
    ahead: &Value,
    is_signalled: &Value,
    micros: i64,
) -> Option<Position> {
    let Value::Int(ahead) = ahead else { return None };
    let free_in = free_in(millis);
    let ahead = u32::try_from(*ahead).ok()?;
    let token_floor = FencingToken::new(u64::try_from(micros).ok()?)?;
    Some(Position { free_in, ahead, is_signalled: *is_signalled == Value::Int(1), token_floor })
}
