//! Decodes what the scripts answer. `None`: not an answer of the script.

use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::{Acquired, Found};
use crate::fencing::FencingToken;

pub(super) fn acquired(value: &Value) -> Option<Acquired> {
    let Value::Array(items) = value else { return None };
    match items.as_slice() {
        [Value::Int(1), granted] => {
            let fencing_token = FencingToken::new(text(granted)?.parse().ok()?)?;
            Some(Acquired::Granted { fencing_token })
        }
        [Value::Int(0), Value::Int(millis), holder] => {
            let free_in = u64::try_from(*millis).ok().map(Duration::from_millis);
            Some(Acquired::Refused { holder: text(holder)?, free_in, was_cut: false })
        }
        _ => None,
    }
}

pub(super) fn renewed(value: &Value, leases: usize) -> Option<Vec<Found>> {
    let Value::Array(items) = value else { return None };
    let mut outcomes = vec![Found::Ours; leases];
    for failure in items.chunks(2) {
        let [Value::Int(index), Value::Int(found)] = failure else { return None };
        let index = usize::try_from(*index).ok()?.checked_sub(1)?;
        *outcomes.get_mut(index)? = match found {
            0 => Found::Gone,
            1 => Found::Stolen,
            _ => return None,
        };
    }
    Some(outcomes)
}

pub(super) fn found(value: &Value) -> Option<Found> {
    match value {
        Value::Int(1) => Some(Found::Ours),
        Value::Int(0) => Some(Found::Gone),
        Value::Int(-1) => Some(Found::Stolen),
        _ => None,
    }
}

/// A holder may be any client: its owner value need not be UTF-8.
fn text(value: &Value) -> Option<String> {
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
        let granted = acquired(&Value::Array(vec![Value::Int(1), bulk("1795000000000000")]));
        let fencing_token = FencingToken::new(1_795_000_000_000_000).unwrap();
        assert_eq!(granted, Some(Acquired::Granted { fencing_token }));

        let refused = |millis| {
            let items = vec![Value::Int(0), Value::Int(millis), bulk("web-3:x")];
            acquired(&Value::Array(items))
        };
        let holder = "web-3:x".to_owned();
        let free_in = Some(Duration::from_millis(70));
        let expected =
            |free_in| Some(Acquired::Refused { holder: holder.clone(), free_in, was_cut: false });
        assert_eq!(refused(70), expected(free_in));
        assert_eq!(refused(-1), expected(None));
    }

    #[test]
    fn renewals_name_their_failures_by_position() {
        let value = Value::Array([2, 0, 3, 1].map(Value::Int).to_vec());
        let expected = vec![Found::Ours, Found::Gone, Found::Stolen];
        assert_eq!(renewed(&value, 3), Some(expected));
        assert_eq!(renewed(&Value::Array(vec![]), 1), Some(vec![Found::Ours]));
    }

    #[test]
    fn anything_else_is_not_an_answer() {
        let odd = [
            Value::Nil,
            Value::Okay,
            Value::Int(7),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1), bulk("9007199254740992")]),
            Value::Array(vec![Value::Int(1), bulk("-1")]),
            Value::Array(vec![Value::Int(0), Value::Nil, Value::Nil]),
        ];
        for value in odd {
            assert_eq!(acquired(&value), None, "{value:?}");
            assert_eq!(found(&value), None, "{value:?}");
        }
        for bad in [vec![0, 0], vec![4, 0], vec![1], vec![1, 2], vec![-1, 0]] {
            let value = Value::Array(bad.into_iter().map(Value::Int).collect());
            assert_eq!(renewed(&value, 3), None, "{value:?}");
        }
    }
}
