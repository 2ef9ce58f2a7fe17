//! Decodes what the scripts answer. `None`: not an answer of the script.

use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::{Acquired, Found};
use crate::fencing::FencingToken;

/// An answer, and what the server's clock showed then, in microseconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Timed<T> {
    pub(crate) found: T,
    pub(crate) micros: i64,
}

pub(crate) fn acquired(value: &Value) -> Option<Timed<Acquired>> {
    match value {
        Value::BulkString(granted) => {
            let (number, time) = std::str::from_utf8(granted).ok()?.split_once(' ')?;
            let fencing_token = FencingToken::new(number.parse().ok()?)?;
            let found = Acquired::Granted { fencing_token, was_cut: false };
            Some(Timed { found, micros: time.parse().ok()? })
        }
        Value::Array(items) => {
            let [Value::Int(0), Value::Int(millis), holder, time] = items.as_slice() else {
                return None;
            };
            let free_in = u64::try_from(*millis).ok().map(Duration::from_millis);
            let holder = text(holder)?;
            let found = Acquired::Refused { holder, free_in, was_cut: false, is_split: false };
            Some(Timed { found, micros: text(time)?.parse().ok()? })
        }
        _ => None,
    }
}

pub(crate) fn renewed(value: &Value, leases: usize) -> Option<Timed<Vec<Found>>> {
    let Value::Array(items) = value else { return None };
    let (Value::Int(micros), failures) = items.split_first()? else { return None };
    let mut outcomes = vec![Found::Ours; leases];
    for failure in failures.chunks(2) {
        let [Value::Int(index), Value::Int(found)] = failure else { return None };
        let index = usize::try_from(*index).ok()?.checked_sub(1)?;
        *outcomes.get_mut(index)? = match found {
            0 => Found::Gone,
            1 => Found::Stolen,
            _ => return None,
        };
    }
    Some(Timed { found: outcomes, micros: *micros })
}

/// The answer to TIME, in microseconds.
pub(crate) fn time(value: &Value) -> Option<i64> {
    let Value::Array(items) = value else { return None };
    let [seconds, micros] = items.as_slice() else { return None };
    let (seconds, micros): (i64, i64) = (text(seconds)?.parse().ok()?, text(micros)?.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

pub(crate) fn found(value: &Value) -> Option<Found> {
    match value {
        Value::Int(1) => Some(Found::Ours),
        Value::Int(0) => Some(Found::Gone),
        Value::Int(-1) => Some(Found::Stolen),
        _ => None,
    }
}

/// What a release found, and whether somebody else has the lock now.
pub(crate) fn released(value: &Value) -> Option<(Found, bool)> {
    match value {
        Value::Int(2) => Some((Found::Ours, true)),
        value => Some((found(value)?, false)),
    }
}

/// Will a release be told of? Otherwise the lock is free already.
pub(crate) fn will_tell(value: &Value) -> Option<bool> {
    match value {
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        _ => None,
    }
}

/// A holder may be any client: its owner value need not be UTF-8.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn the_three_answers_to_an_acquire() {
        let fencing_token = FencingToken::new(1_795_000_000_000_000).unwrap();
        let found = Acquired::Granted { fencing_token, was_cut: false };
        assert_eq!(acquired(&bulk("1795000000000000 17")), Some(Timed { found, micros: 17 }));

        let refused = |millis| {
            let items = vec![Value::Int(0), Value::Int(millis), bulk("web-3:x"), bulk("17")];
            acquired(&Value::Array(items)).map(|answer| answer.found)
        };
        let holder = "web-3:x".to_owned();
        let free_in = Some(Duration::from_millis(70));
        let expected = |free_in| {
            Some(Acquired::Refused {
                holder: holder.clone(),
                free_in,
                was_cut: false,
                is_split: false,
            })
        };
        assert_eq!(refused(70), expected(free_in));
        assert_eq!(refused(-1), expected(None));
    }

    #[test]
    fn renewals_name_their_failures_by_position() {
        let value = Value::Array([17, 2, 0, 3, 1].map(Value::Int).to_vec());
        let found = vec![Found::Ours, Found::Gone, Found::Stolen];
        assert_eq!(renewed(&value, 3), Some(Timed { found, micros: 17 }));
        let all = Value::Array(vec![Value::Int(17)]);
        assert_eq!(renewed(&all, 1), Some(Timed { found: vec![Found::Ours], micros: 17 }));
    }

    #[test]
    fn the_time_is_told_in_seconds_and_microseconds() {
        assert_eq!(time(&Value::Array(vec![bulk("17"), bulk("4")])), Some(17_000_004));
    }

    #[test]
    fn a_release_says_whose_the_lock_was() {
        assert_eq!(released(&Value::Int(2)), Some((Found::Ours, true)));
        assert_eq!(released(&Value::Int(-1)), Some((Found::Stolen, false)));
        assert_eq!(released(&Value::Int(3)), None);
        let outcomes = [1, 0, -1].map(|code| found(&Value::Int(code)));
        assert_eq!(outcomes, [Found::Ours, Found::Gone, Found::Stolen].map(Some));
    }

    /// Whatever a server or another client makes of it.
    #[test]
    fn a_holder_is_read_in_every_form_of_text() {
        for (holder, shown) in [
            (bulk("web-3"), "web-3"),
            (Value::BulkString(vec![b'w', 0xff]), "w\u{fffd}"),
            (Value::SimpleString("web-3".to_owned()), "web-3"),
            (Value::Int(7), "7"),
        ] {
            let items = vec![Value::Int(0), Value::Int(70), holder, bulk("17")];
            let answer = acquired(&Value::Array(items)).map(|answer| answer.found);
            let Some(Acquired::Refused { holder, .. }) = answer else { panic!("{answer:?}") };
            assert_eq!(holder, shown);
        }
    }

    #[test]
    fn anything_else_is_not_an_answer() {
        let odd = [
            Value::Nil,
            Value::Okay,
            Value::Int(7),
            Value::Array(vec![]),
            bulk(""),
            bulk("1795000000000000"),
            bulk("1795000000000000 "),
            bulk("1795000000000000 17 4"),
            bulk("9007199254740992 17"),
            bulk("-1 17"),
            Value::BulkString(b"\xff 17".to_vec()),
            Value::Array(vec![Value::Int(1), bulk("1795000000000000"), bulk("17")]),
            Value::Array(vec![Value::Int(0), Value::Nil, Value::Nil, bulk("17")]),
            Value::Array(vec![Value::Int(0), Value::Int(70), bulk("web-3:x"), bulk("soon")]),
        ];
        for value in odd {
            assert_eq!(acquired(&value), None, "{value:?}");
            assert_eq!(found(&value), None, "{value:?}");
        }
        for bad in [vec![0, 0], vec![4, 0], vec![1], vec![1, 2], vec![-1, 0]] {
            let value = Value::Array([17].into_iter().chain(bad).map(Value::Int).collect());
            assert_eq!(renewed(&value, 3), None, "{value:?}");
        }
        assert_eq!(renewed(&Value::Array(vec![]), 3), None);
        assert_eq!(time(&Value::Array(vec![bulk("17")])), None);
        assert_eq!(time(&Value::Array(vec![bulk("9223372036854775807"), bulk("1")])), None);
    }
}
