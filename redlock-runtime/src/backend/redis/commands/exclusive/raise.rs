//! The raise command: lifts the fencing counter, so that N nodes, or the keys of one hold, agree on
//! a fencing token.

use deadpool_redis::redis::Value;

use super::{arguments, replies};
use crate::backend::redis::commands::{Script, ScriptCall};
use crate::backend::{Claim, Found};
use crate::fencing::FencingToken;

pub(crate) static SCRIPT: Script = Script::new(include_str!("raise.lua"));

pub(crate) fn call(claim: &Claim, fencing_token: FencingToken) -> ScriptCall {
    let (mark, counter) = (claim.key.mark_key(), claim.key.counter_key());
    let (fencing_token, life) = (fencing_token.to_string(), arguments::counter_life(claim));
    let keys = [claim.key.redis_key(), &mark, &counter];
    ScriptCall::new(&SCRIPT, &keys, &[claim.owner.as_str(), &fencing_token, &life])
}

pub(crate) fn decode(value: &Value) -> Option<Found> {
    replies::found(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_whose_the_lock_is() {
        let outcomes = [1, 0, -1].map(|code| decode(&Value::Int(code)));
        assert_eq!(outcomes, [Found::Ours, Found::Gone, Found::Stolen].map(Some));
        for value in [Value::Nil, Value::Okay, Value::Int(7)] {
            assert_eq!(decode(&value), None, "{value:?}");
        }
    }
}
