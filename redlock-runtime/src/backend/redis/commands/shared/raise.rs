//! The raise command: lifts the fencing counter, so that N nodes agree on a fencing token. The
//! reply is that of the exclusive kind.

use super::words;
use crate::backend::Claim;
use crate::backend::redis::commands::exclusive::arguments;
use crate::backend::redis::commands::{Script, ScriptCall};
use crate::fencing::FencingToken;

pub(crate) static SCRIPT: Script = Script::new(include_str!("raise.lua"));

pub(crate) fn call(claim: &Claim, fencing_token: FencingToken) -> ScriptCall {
    let (mark, counter) = (claim.key.mark_key(), claim.key.counter_key());
    let holders = claim.key.holders_key();
    let (fencing_token, life) = (fencing_token.to_string(), arguments::counter_life(claim));
    let keys = [claim.key.redis_key(), &mark, &counter, &holders];
    let args = [claim.owner.as_str(), &fencing_token, &life, words::marker(claim.kind)];
    ScriptCall::new(&SCRIPT, &keys, &args)
}
