//! The downgrade command: the holder of an exclusive lock becomes a reader.

use deadpool_redis::redis::Value;

use super::{release, words};
use crate::backend::redis::commands::exclusive::{arguments, replies};
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::backend::{Claim, Downgraded, Found};

pub(crate) static SCRIPT: Script =
    with_hand_over!("join.lua", "downgrade.lua").loaded_with(&release::SCRIPT);

/// `held` becomes the reader `next`.
pub(crate) fn call(held: &Claim, next: &Claim) -> ScriptCall {
    let keys = words::keys(next);
    let (expire, life) = (arguments::expire(next), arguments::counter_life(next));
    let args = [held.owner.as_str(), next.owner.as_str(), &expire, &life];
    ScriptCall::new(&SCRIPT, &keys.each_ref().map(String::as_str), &args)
}

pub(crate) fn decode(value: &Value) -> Option<Timed<Downgraded>> {
    let Value::Array(items) = value else { return None };
    let (found, micros) = match items.as_slice() {
        [Value::Int(1), first, last, Value::Int(micros)] => {
            (Downgraded::Granted(replies::fencing_tokens(first, last)?.first), micros)
        }
        [Value::Int(0), Value::Int(micros)] => (Downgraded::Lost(Found::Gone), micros),
        [Value::Int(-1), Value::Int(micros)] => (Downgraded::Lost(Found::Stolen), micros),
        _ => return None,
    };
    Some(Timed { found, micros: *micros })
}
