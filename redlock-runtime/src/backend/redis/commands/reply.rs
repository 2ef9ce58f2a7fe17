//! The parts of which replies consist. `None`: the reply has another form.

use deadpool_redis::redis::Value;

/// An answer, and what the server's clock showed then, in microseconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Timed<T> {
    pub(crate) found: T,
    pub(crate) micros: i64,
}

/// The answer to TIME, in microseconds.
pub(crate) fn time(value: &Value) -> Option<i64> {
    let Value::Array(items) = value else { return None };
    let [seconds, micros] = items.as_slice() else { return None };
    let (seconds, micros): (i64, i64) = (text(seconds)?.parse().ok()?, text(micros)?.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// The holder may be any client: its owner value need not be UTF-8.
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
    fn the_time_is_told_in_seconds_and_microseconds() {
        assert_eq!(time(&Value::Array(vec![bulk("17"), bulk("4")])), Some(17_000_004));
    }

    #[test]
    fn anything_else_is_not_the_time() {
        assert_eq!(time(&Value::Array(vec![bulk("17")])), None);
        assert_eq!(time(&Value::Array(vec![bulk("9223372036854775807"), bulk("1")])), None);
    }
}
