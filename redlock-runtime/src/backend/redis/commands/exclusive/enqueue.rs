//! The enqueue command: takes the lock, or an entry at the end of its queue; or checks that entry.

use deadpool_redis::redis::Value;

use super::replies::{self, fencing_tokens, position};
use super::{arguments, release};
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::backend::{Claim, Enqueued, Look};

pub(crate) static SCRIPT: Script = with_hand_over!("enqueue.lua").loaded_with(&release::SCRIPT);

/// Enqueues an owner that is signalled on `channel`. An owner may enqueue only once, so this is not
/// repeated.
pub(crate) fn call(claim: &Claim, reserve: u32, channel: &str) -> ScriptCall {
    with(claim, reserve, &[channel])
}

/// Checks the entry of an owner that enqueued before.
pub(crate) fn look(claim: &Claim, reserve: u32, look: Look) -> ScriptCall {
    let (ahead, removes_dead) = arguments::look(look);
    ScriptCall { may_repeat: true, ..with(claim, reserve, &["", &ahead, removes_dead]) }
}

fn with(claim: &Claim, reserve: u32, place: &[&str]) -> ScriptCall {
    let keys = claim.key.with_helpers();
    let (expire, life) = (arguments::expire(claim), arguments::counter_life(claim));
    let reserve = reserve.to_string();
    let args = [&[claim.owner.as_str(), &expire, &life, &reserve], place].concat();
    ScriptCall { may_repeat: false, ..ScriptCall::new(&SCRIPT, &keys.names(), &args) }
}

pub(crate) fn decode(value: &Value) -> Option<Timed<Enqueued>> {
    let Value::Array(items) = value else { return None };
    let (found, micros) = match items.as_slice() {
        [Value::Int(1), first, last, Value::Int(micros)] => {
            (Enqueued::Granted(fencing_tokens(first, last)?), micros)
        }
        [Value::Int(0), Value::Int(millis), holder, Value::Int(micros), ahead, is_signalled] => {
            let (holder, free_in) = replies::held(*millis, holder)?;
            let position = position(free_in, ahead, is_signalled, *micros)?;
            (Enqueued::Waiting { holder, position }, micros)
        }
        [Value::Int(2), Value::Int(micros)] => (Enqueued::Unknown, micros),
        _ => return None,
    };
    Some(Timed { found, micros: *micros })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::Position;
    use crate::backend::redis::commands::exclusive::samples::{eight, granted, reply, waiting};
    use crate::fencing::FencingToken;

    fn floor() -> FencingToken {
        FencingToken::new(17).unwrap()
    }

    #[test]
    fn the_three_answers() {
        assert_eq!(decode(&granted(1)).unwrap().found, Enqueued::Granted(eight()));
        let position = |free_in| {
            let (is_signalled, is_outdated, token_floor) = (true, false, floor());
            Position { free_in, ahead: 3, is_signalled, is_outdated, token_floor }
        };
        let queued = |free_in| {
            let holder = "web-3:x".to_owned();
            Some(Timed {
                found: Enqueued::Waiting { holder: Some(holder), position: position(free_in) },
                micros: 17,
            })
        };
        assert_eq!(decode(&waiting(0, 70)), queued(Some(Duration::from_millis(70))));
        assert_eq!(decode(&waiting(0, -1)), queued(None));
        let unknown = reply(vec![Value::Int(2), Value::Int(17)]);
        assert_eq!(decode(&unknown), Some(Timed { found: Enqueued::Unknown, micros: 17 }));
    }

    #[test]
    fn anything_else_is_not_an_answer() {
        for value in
            [Value::Nil, Value::Int(1), reply(vec![]), granted(0), waiting(1, 7), granted(2)]
        {
            assert_eq!(decode(&value), None, "{value:?}");
        }
    }
}
