//! The acquire command: enters among the holders if there is room.

use deadpool_redis::redis::Value;

use super::{release, words};
use crate::backend::redis::commands::exclusive::{arguments, replies};
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::backend::{Acquired, Claim};

pub(crate) static SCRIPT: Script =
    with_hand_over!(first "quick_acquire.lua", "join.lua", "acquire.lua")
        .loaded_with(&release::SCRIPT);

pub(crate) fn call(claim: &Claim) -> ScriptCall {
    let keys = words::keys(claim);
    let (expire, life) = (arguments::expire(claim), arguments::counter_life(claim));
    let args = [claim.owner.as_str(), &expire, &life, &words::tokens(claim.kind)];
    ScriptCall::new(&SCRIPT, &keys.each_ref().map(String::as_str), &args)
}

pub(crate) fn decode(value: &Value) -> Option<Timed<Acquired>> {
    let Value::Array(items) = value else { return None };
    let (found, micros) = match items.as_slice() {
        [Value::Int(1), first, last, Value::Int(micros)] => {
            let fencing_tokens = replies::fencing_tokens(first, last)?;
            (Acquired::Granted { fencing_tokens, was_cut: false }, micros)
        }
        [Value::Int(0), Value::Int(millis), holder, Value::Int(micros)] => {
            let (holder, free_in) = replies::held(*millis, holder)?;
            (Acquired::refused(holder, free_in), micros)
        }
        _ => return None,
    };
    Some(Timed { found, micros: *micros })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::redis::commands::exclusive::samples::{bulk, eight, granted, reply};

    #[test]
    fn the_two_answers() {
        let found = Acquired::Granted { fencing_tokens: eight(), was_cut: false };
        assert_eq!(decode(&granted(1)), Some(Timed { found, micros: 17 }));
        let refused =
            reply(vec![Value::Int(0), Value::Int(70), bulk("<readers> 3"), Value::Int(17)]);
        let found = Acquired::refused("3 readers".to_owned(), Some(Duration::from_millis(70)));
        assert_eq!(decode(&refused), Some(Timed { found, micros: 17 }));
        for value in [Value::Nil, reply(vec![]), granted(0), reply(vec![Value::Int(0)])] {
            assert_eq!(decode(&value), None, "{value:?}");
        }
    }
}
