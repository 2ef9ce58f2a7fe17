//! The acquire command: takes the lock if it is free.

use deadpool_redis::redis::Value;

use super::{arguments, release, replies};
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Invocation, Part, Script, ScriptCall, Verb};
use crate::backend::{Acquired, Claim, FencingTokens};
use crate::fencing::FencingToken;

/// How many fencing tokens are reserved after one that is the server's time in microseconds: other
/// callers of this process may have the lock next, without a command. The server's clock has passed
/// them when the grant arrives, so that the next token is larger.
const FURTHER: u64 = 3;

pub(crate) static SCRIPT: Script =
    Script::new(include_str!("acquire.lua")).loaded_with(&release::SCRIPT);

pub(crate) fn call(claim: &Claim) -> ScriptCall {
    ScriptCall::batchable(Part::new(Verb::Acquire, claim, by_itself))
}

fn by_itself(claim: &Claim) -> Invocation {
    let keys = claim.key.with_helpers();
    let [lock, mark, counter, _] = keys.names();
    let (expire, life) = (arguments::expire(claim), arguments::counter_life(claim));
    Invocation::new(&SCRIPT, &[lock, mark, counter], &[claim.owner.as_str(), &expire, &life])
}

/// A grant is one text, a refusal a list.
pub(crate) fn decode(value: &Value) -> Option<Timed<Acquired>> {
    let Value::BulkString(granted) = value else { return replies::refused(value) };
    let granted = std::str::from_utf8(granted).ok()?;
    let first_and_time = granted.split_once(' ');
    let first: FencingToken = first_and_time.map_or(granted, |(first, _)| first).parse().ok()?;
    let (micros, further) = match first_and_time {
        Some((_, time)) => (time.parse().ok()?, 0),
        None => (first.into(), FURTHER),
    };
    let last = FencingToken::new(u64::from(first) + further)?;
    let fencing_tokens = FencingTokens { first, last };
    let found = Acquired::Granted { fencing_tokens, was_cut: false };
    Some(Timed { found, micros })
}

#[cfg(test)]
mod tests;
