//! The command that requests a release hint, where waiters do not queue on the server.

use deadpool_redis::redis::Value;

use crate::backend::Claim;
use crate::backend::redis::commands::shared::words;
use crate::backend::redis::commands::{Script, ScriptCall};

pub(crate) static SCRIPT: Script = Script::new(include_str!("release_hint.lua"));

pub(crate) fn call(claim: &Claim, channel: &str) -> ScriptCall {
    let queue = claim.key.queue_key();
    let keys = [claim.key.redis_key(), &queue];
    let args = [claim.owner.as_str(), channel, &words::tokens(claim.kind)];
    // A second one would stay when the first is taken out.
    ScriptCall { may_repeat: false, ..ScriptCall::new(&SCRIPT, &keys, &args) }
}

/// What has become of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HintReply {
    /// The lock is free already.
    Free,
    /// It is registered until a release signals it.
    Once,
    /// It is registered until it is cancelled, and keeps callers of shared kinds out.
    Stays,
}

pub(crate) fn decode(value: &Value) -> Option<HintReply> {
    match value {
        Value::Int(0) => Some(HintReply::Free),
        Value::Int(1) => Some(HintReply::Once),
        Value::Int(2) => Some(HintReply::Stays),
        _ => None,
    }
}
