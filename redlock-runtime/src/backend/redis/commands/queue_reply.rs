//! Decodes what the scripts of a line answer. `None`: not an answer of the script.

use std::time::Duration;

use deadpool_redis::redis::Value;

use super::reply::{Timed, text};
use crate::backend::{Enqueued, FencingTokens, Found, Position, Rotated};
use crate::fencing::FencingToken;

pub(crate) fn enqueued(value: &Value) -> Option<Timed<Enqueued>> {
    let Value::Array(items) = value else { return None };
    let (found, micros) = match items.as_slice() {
        [Value::Int(1), first, last, Value::Int(micros)] => {
            (Enqueued::Granted(fencing_tokens(first, last)?), micros)
        }
        [Value::Int(0), millis, holder, Value::Int(micros), ahead, is_told] => {
            let position = position(millis, ahead, is_told, *micros)?;
            (Enqueued::Waiting { holder: text(holder)?, position }, micros)
        }
        [Value::Int(2), Value::Int(micros)] => (Enqueued::Unknown, micros),
        _ => return None,
    };
    Some(Timed { found, micros: *micros })
}

pub(crate) fn rotated(value: &Value) -> Option<Timed<Rotated>> {
    let Value::Array(items) = value else { return None };
    let (found, micros) = match items.as_slice() {
        [Value::Int(1), first, last, Value::Int(micros)] => {
            (Rotated::Kept(fencing_tokens(first, last)?), micros)
        }
        [Value::Int(2), millis, holder, Value::Int(micros), ahead, is_told] => {
            let position = position(millis, ahead, is_told, *micros)?;
            (Rotated::Passed { holder: text(holder)?, position }, micros)
        }
        [Value::Int(0), Value::Int(micros)] => (Rotated::Lost(Found::Gone), micros),
        [Value::Int(-1), Value::Int(micros)] => (Rotated::Lost(Found::Stolen), micros),
        _ => return None,
    };
    Some(Timed { found, micros: *micros })
}

/// For how long the lock is held (`None`: it is free, or has no expiry), and how many wait.
pub(crate) fn nudged(value: &Value) -> Option<(Option<Duration>, u64)> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(millis), Value::Int(waiting)] = items.as_slice() else { return None };
    let free_in = u64::try_from(*millis).ok().map(Duration::from_millis);
    Some((free_in, u64::try_from(*waiting).ok()?))
}

fn fencing_tokens(first: &Value, last: &Value) -> Option<FencingTokens> {
    Some(FencingTokens { first: fencing_token(first)?, last: fencing_token(last)? })
}

fn position(millis: &Value, ahead: &Value, is_told: &Value, micros: i64) -> Option<Position> {
    let (Value::Int(millis), Value::Int(ahead)) = (millis, ahead) else { return None };
    let free_in = u64::try_from(*millis).ok().map(Duration::from_millis);
    let ahead = u32::try_from(*ahead).ok()?;
    let micros = u64::try_from(micros).ok()?;
    Some(Position { free_in, ahead, is_told: *is_told == Value::Int(1), micros })
}

fn fencing_token(value: &Value) -> Option<FencingToken> {
    FencingToken::new(text(value)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn reply(items: Vec<Value>) -> Value {
        Value::Array(items)
    }

    fn granted(code: i64) -> Value {
        reply(vec![Value::Int(code), bulk("41"), bulk("48"), Value::Int(17)])
    }

    fn waiting(code: i64, millis: i64) -> Value {
        let numbers = [Value::Int(17), Value::Int(3), Value::Int(1)];
        reply(
            [Value::Int(code), Value::Int(millis), bulk("web-3:x")]
                .into_iter()
                .chain(numbers)
                .collect(),
        )
    }

    fn eight() -> FencingTokens {
        let fencing_token = |number| FencingToken::new(number).unwrap();
        FencingTokens { first: fencing_token(41), last: fencing_token(48) }
    }

    #[test]
    fn the_three_answers_to_a_join() {
        assert_eq!(enqueued(&granted(1)).unwrap().found, Enqueued::Granted(eight()));
        let position = |free_in| Position { free_in, ahead: 3, is_told: true, micros: 17 };
        let in_line = |free_in| {
            let holder = "web-3:x".to_owned();
            Some(Timed {
                found: Enqueued::Waiting { holder, position: position(free_in) },
                micros: 17,
            })
        };
        assert_eq!(enqueued(&waiting(0, 70)), in_line(Some(Duration::from_millis(70))));
        assert_eq!(enqueued(&waiting(0, -1)), in_line(None));
        let unknown = reply(vec![Value::Int(2), Value::Int(17)]);
        assert_eq!(enqueued(&unknown), Some(Timed { found: Enqueued::Unknown, micros: 17 }));
    }

    #[test]
    fn the_answers_to_a_holder_that_gives_way() {
        assert_eq!(rotated(&granted(1)).unwrap().found, Rotated::Kept(eight()));
        let passed = rotated(&waiting(2, 500)).unwrap().found;
        assert!(matches!(passed, Rotated::Passed { position: Position { ahead: 3, .. }, .. }));
        for (code, found) in [(0, Found::Gone), (-1, Found::Stolen)] {
            let lost = reply(vec![Value::Int(code), Value::Int(17)]);
            assert_eq!(rotated(&lost).unwrap().found, Rotated::Lost(found));
        }
    }

    #[test]
    fn a_nudge_says_how_long_the_lock_is_held_and_who_waits() {
        let nudge = |millis, waiting| nudged(&reply(vec![Value::Int(millis), Value::Int(waiting)]));
        assert_eq!(nudge(70, 2), Some((Some(Duration::from_millis(70)), 2)));
        assert_eq!(nudge(-2, 0), Some((None, 0)));
        assert_eq!(nudge(70, -1), None);
    }

    #[test]
    fn anything_else_is_not_an_answer() {
        for value in
            [Value::Nil, Value::Int(1), reply(vec![]), granted(0), waiting(1, 7), granted(2)]
        {
            assert_eq!(enqueued(&value), None, "{value:?}");
        }
        for value in [Value::Okay, waiting(0, 7), reply(vec![Value::Int(2), Value::Int(17)])] {
            assert_eq!(rotated(&value), None, "{value:?}");
        }
    }
}
