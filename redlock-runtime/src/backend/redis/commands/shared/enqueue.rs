//! The enqueue command: enters among the holders, or puts the owner at the end of the queue; or
//! checks its entry.

use super::{release, words};
use crate::backend::redis::commands::exclusive::arguments;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::backend::{Claim, Look};

pub(crate) static SCRIPT: Script =
    with_hand_over!("join.lua", "enqueue.lua").loaded_with(&release::SCRIPT);

/// Enqueues an owner that is signalled on `channel`. An owner may enqueue only once, so this is not
/// repeated. The reply is that of the exclusive kind.
pub(crate) fn call(claim: &Claim, channel: &str) -> ScriptCall {
    with(claim, &[channel])
}

/// Checks the entry of an owner that enqueued before.
pub(crate) fn look(claim: &Claim, look: Look) -> ScriptCall {
    let (ahead, removes_dead) = arguments::look(look);
    ScriptCall { may_repeat: true, ..with(claim, &["", &ahead, removes_dead]) }
}

fn with(claim: &Claim, place: &[&str]) -> ScriptCall {
    let keys = words::keys(claim);
    let (expire, life) = (arguments::expire(claim), arguments::counter_life(claim));
    let tokens = words::tokens(claim.kind);
    let args = [&[claim.owner.as_str(), &expire, &life, &tokens], place].concat();
    let keys = keys.each_ref().map(String::as_str);
    ScriptCall { may_repeat: false, ..ScriptCall::new(&SCRIPT, &keys, &args) }
}
