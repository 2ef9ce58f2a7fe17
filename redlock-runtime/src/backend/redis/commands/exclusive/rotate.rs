//! The rotate command: gives other processes their turn, or makes the lease full again.

use deadpool_redis::redis::Value;

use super::arguments;
use super::replies::{self, fencing_tokens, position};
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::backend::{Claim, Found, Rotated, TokensUsed};

pub(crate) static SCRIPT: Script = with_hand_over!("rotate.lua");

/// The holder `held`, which has used `tokens`, gives way, and `next` is signalled on `channel`.
pub(crate) fn call(
    held: &Claim,
    tokens: TokensUsed,
    next: &Claim,
    reserve: u32,
    channel: &str,
) -> ScriptCall {
    let keys = held.key.with_helpers();
    let keys = keys.names();
    let (used, reserved) = (tokens.used.to_string(), tokens.reserved.to_string());
    let reserve = reserve.to_string();
    let (expire, life) = (arguments::expire(next), arguments::counter_life(next));
    let args = [
        held.owner.as_str(),
        &used,
        &reserved,
        next.owner.as_str(),
        &expire,
        &life,
        &reserve,
        channel,
    ];
    ScriptCall { may_repeat: false, ..ScriptCall::new(&SCRIPT, &keys, &args) }
}

pub(crate) fn decode(value: &Value) -> Option<Timed<Rotated>> {
    let Value::Array(items) = value else { return None };
    let (found, micros) = match items.as_slice() {
        [Value::Int(1), first, last, Value::Int(micros)] => {
            (Rotated::Kept(fencing_tokens(first, last)?), micros)
        }
        [Value::Int(2), Value::Int(millis), holder, Value::Int(micros), ahead, is_signalled] => {
            let (holder, free_in) = replies::held(*millis, holder)?;
            let position = position(free_in, ahead, is_signalled, *micros)?;
            (Rotated::Passed { holder, position }, micros)
        }
        [Value::Int(0), Value::Int(micros)] => (Rotated::Lost(Found::Gone), micros),
        [Value::Int(-1), Value::Int(micros)] => (Rotated::Lost(Found::Stolen), micros),
        _ => return None,
    };
    Some(Timed { found, micros: *micros })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Position;
    use crate::backend::redis::commands::exclusive::samples::{eight, granted, reply, waiting};

    #[test]
    fn the_answers_to_a_holder_that_gives_way() {
        assert_eq!(decode(&granted(1)).unwrap().found, Rotated::Kept(eight()));
        let passed = decode(&waiting(2, 500)).unwrap().found;
        assert!(matches!(passed, Rotated::Passed { position: Position { ahead: 3, .. }, .. }));
        for (code, found) in [(0, Found::Gone), (-1, Found::Stolen)] {
            let lost = reply(vec![Value::Int(code), Value::Int(17)]);
            assert_eq!(decode(&lost).unwrap().found, Rotated::Lost(found));
        }
    }

    #[test]
    fn anything_else_is_not_an_answer() {
        for value in [Value::Okay, waiting(0, 7), reply(vec![Value::Int(2), Value::Int(17)])] {
            assert_eq!(decode(&value), None, "{value:?}");
        }
    }
}
