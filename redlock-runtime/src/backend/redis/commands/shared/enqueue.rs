//! The enqueue command: enters among the holders, or puts the owner at the end of the queue; or
//! checks its entry.

use super::with_join::with_join;
use super::{release, words};
use crate::backend::Claim;
use crate::backend::redis::commands::exclusive::arguments;
use crate::backend::redis::commands::{Script, ScriptCall};

pub(in crate::backend::redis::commands) static SCRIPT: Script =
    with_join!("enqueue.lua").before(&release::SCRIPT);

/// Enqueues an owner that is signalled on `channel`. An owner may enqueue only once, so this is not
/// repeated. The reply is that of the exclusive kind.
pub(crate) fn call(claim: &Claim, channel: &str) -> ScriptCall {
    let keys = words::keys(claim);
    let (expire, life) = (arguments::expire(claim), arguments::counter_life(claim));
    let args = [claim.owner.as_str(), &expire, &life, &words::tokens(claim.kind), channel];
    let keys = keys.each_ref().map(String::as_str);
    ScriptCall { may_repeat: channel.is_empty(), ..ScriptCall::new(&SCRIPT, &keys, &args) }
}

/// Checks the entry of an owner that enqueued before.
pub(crate) fn look(claim: &Claim) -> ScriptCall {
    call(claim, "")
}
