//! Replies of the queue's scripts, for the tests of their decoders.

use deadpool_redis::redis::Value;

use crate::backend::FencingTokens;
use crate::fencing::FencingToken;

pub(in crate::backend::redis::commands) fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

pub(in crate::backend::redis::commands) fn reply(items: Vec<Value>) -> Value {
    Value::Array(items)
}

/// A grant of the tokens that [`eight`] returns.
pub(in crate::backend::redis::commands) fn granted(code: i64) -> Value {
    reply(vec![Value::Int(code), bulk("41"), bulk("48"), Value::Int(17)])
}

/// A position: three wait ahead, and the hand-over will be signalled.
pub(in crate::backend::redis::commands) fn waiting(code: i64, millis: i64) -> Value {
    let lease = [Value::Int(code), Value::Int(millis), bulk("web-3:x")];
    let position = [Value::Int(17), Value::Int(3), Value::Int(1)];
    reply(lease.into_iter().chain(position).collect())
}

pub(in crate::backend::redis::commands) fn eight() -> FencingTokens {
    let fencing_token = |number| FencingToken::new(number).unwrap();
    FencingTokens { first: fencing_token(41), last: fencing_token(48) }
}
