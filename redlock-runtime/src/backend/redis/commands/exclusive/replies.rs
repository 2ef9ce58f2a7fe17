//! The parts of replies that several commands share.

use std::num::NonZeroU32;
use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::redis::commands::reply::{Timed, text};
use crate::backend::redis::commands::shared::words;
use crate::backend::{Acquired, FencingTokens, Found, Position};
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

/// The refusal of an acquire.
pub(in crate::backend::redis::commands) fn refused(value: &Value) -> Option<Timed<Acquired>> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(0), Value::Int(millis), holder, time] = items.as_slice() else { return None };
    let (holder, free_in) = held(*millis, holder)?;
    let found = Acquired::refused(holder, free_in);
    Some(Timed { found, micros: text(time)?.parse().ok()? })
}

/// What `PTTL` says of a key that does not exist.
const NO_KEY: i64 = -2;

/// The holder of a lock that is refused, or `None` if nobody holds it, and somebody else comes
/// first; and when the lease ends, or `None` if the key has no expiry.
pub(in crate::backend::redis::commands) fn held(
    millis: i64,
    value: &Value,
) -> Option<(Option<String>, Option<Duration>)> {
    if millis == NO_KEY {
        return Some((None, None));
    }
    Some((Some(holder(value)?), u64::try_from(millis).ok().map(Duration::from_millis)))
}

/// The owner value of a holder, or the group that the marker of a shared kind stands for, with the
/// number of its members or without.
fn holder(value: &Value) -> Option<String> {
    let text = text(value)?;
    let (marker, count) = match text.split_once(' ') {
        Some((marker, count)) => (marker, Some(count.parse())),
        None => (&*text, None),
    };
    let kind = [Kind::Read, Kind::Permits(NonZeroU32::MIN)]
        .into_iter()
        .find(|kind| words::marker(*kind) == marker);
    Some(match (kind, count.transpose()) {
        (Some(kind), Ok(count)) => shown_group(kind, count),
        // An owner value begins with the name of its client, which may be any text.
        _ => text,
    })
}

/// A position in the queue. Fencing tokens are never below the server's time, in microseconds.
pub(in crate::backend::redis::commands) fn position(
    free_in: Option<Duration>,
    ahead: &Value,
    is_signalled: &Value,
    micros: i64,
) -> Option<Position> {
    let Value::Int(ahead) = ahead else { return None };
    let ahead = u32::try_from(*ahead).ok()?;
    let token_floor = FencingToken::new(u64::try_from(micros).ok()?)?;
    let is_signalled = *is_signalled == Value::Int(1);
    Some(Position { free_in, ahead, is_signalled, is_outdated: false, token_floor })
}
