//! The acquire command: takes the lock if it is free.

use deadpool_redis::redis::Value;

use super::{arguments, release, replies};
use crate::backend::redis::commands::reply::{Timed, text};
use crate::backend::redis::commands::{Invocation, Part, Script, ScriptCall, Verb};
use crate::backend::{Acquired, Claim, FencingTokens};
use crate::fencing::FencingToken;

/// How many fencing tokens are reserved after one that is the server's time: other callers of this
/// process may have the lock next, without a command. The clock has passed them when the grant
/// arrives.
const FURTHER: u64 = 3;

pub(super) static SCRIPT: Script =
    Script::new(include_str!("acquire.lua")).before(&release::SCRIPT);

pub(crate) fn call(claim: &Claim) -> ScriptCall {
    ScriptCall::plain(Part::new(Verb::Acquire, claim, by_itself))
}

fn by_itself(claim: &Claim) -> Invocation {
    let keys = claim.key.with_helpers();
    let [lock, mark, counter, _] = keys.names();
    let (expire, life) = (arguments::expire(claim), arguments::counter_life(claim));
    Invocation::new(&SCRIPT, &[lock, mark, counter], &[claim.owner.as_str(), &expire, &life])
}

/// A grant is one text, a refusal a list.
pub(crate) fn decode(value: &Value) -> Option<Timed<Acquired>> {
    let Value::BulkString(granted) = value else { return refusal(value) };
    let granted = std::str::from_utf8(granted).ok()?;
    let (first, time, further) = match granted.split_once(' ') {
        Some((first, time)) => (first, time, 0),
        None => (granted, granted, FURTHER),
    };
    let first = first.parse().ok()?;
    let last = FencingToken::new(u64::from(first) + further)?;
    let fencing_tokens = FencingTokens { first, last };
    let found = Acquired::Granted { fencing_tokens, was_cut: false };
    Some(Timed { found, micros: time.parse().ok()? })
}

fn refusal(value: &Value) -> Option<Timed<Acquired>> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(0), Value::Int(millis), holder, time] = items.as_slice() else { return None };
    let found = Acquired::refused(replies::holder(holder)?, replies::free_in(*millis));
    Some(Timed { found, micros: text(time)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::redis::commands::exclusive::samples::bulk;

    #[test]
    fn the_answers_to_an_acquire() {
        let first = FencingToken::new(1_795_000_000_000_000).unwrap();
        let found = Acquired::granted(first);
        assert_eq!(decode(&bulk("1795000000000000 17")), Some(Timed { found, micros: 17 }));
        let last = FencingToken::new(1_795_000_000_000_003).unwrap();
        let found =
            Acquired::Granted { fencing_tokens: FencingTokens { first, last }, was_cut: false };
        let answer = decode(&bulk("1795000000000000"));
        assert_eq!(answer, Some(Timed { found, micros: 1_795_000_000_000_000 }));

        let refused = |millis| {
            let items = vec![Value::Int(0), Value::Int(millis), bulk("web-3:x"), bulk("17")];
            decode(&Value::Array(items)).map(|answer| answer.found)
        };
        let holder = "web-3:x".to_owned();
        let free_in = Some(Duration::from_millis(70));
        let expected = |free_in| Some(Acquired::refused(holder.clone(), free_in));
        assert_eq!(refused(70), expected(free_in));
        assert_eq!(refused(-1), expected(None));
    }

    /// A server or another client may encode it in any of these forms.
    #[test]
    fn a_holder_is_read_in_every_form_of_text() {
        for (holder, shown) in [
            (bulk("web-3"), "web-3"),
            (Value::BulkString(vec![b'w', 0xff]), "w\u{fffd}"),
            (Value::SimpleString("web-3".to_owned()), "web-3"),
            (Value::Int(7), "7"),
            (bulk("<readers>"), "readers"),
            (bulk("<permits> 3"), "3 permits"),
            (bulk("<readers> web-3:x"), "<readers> web-3:x"),
        ] {
            let items = vec![Value::Int(0), Value::Int(70), holder, bulk("17")];
            let answer = decode(&Value::Array(items)).map(|answer| answer.found);
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
            bulk("1795000000000000 "),
            bulk(" 1795000000000000"),
            bulk("1795000000000000 17 4"),
            bulk("9007199254740992 17"),
            bulk("9007199254740990"),
            bulk("-1 17"),
            Value::BulkString(b"\xff 17".to_vec()),
            Value::Array(vec![Value::Int(1), bulk("1795000000000000"), bulk("17")]),
            Value::Array(vec![Value::Int(0), Value::Nil, Value::Nil, bulk("17")]),
            Value::Array(vec![Value::Int(0), Value::Int(70), bulk("web-3:x"), bulk("soon")]),
        ];
        for value in odd {
            assert_eq!(decode(&value), None, "{value:?}");
        }
    }
}
