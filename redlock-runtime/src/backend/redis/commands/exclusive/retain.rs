//! The retain command: lets go of a lock whose `min_hold` is not over.

use std::time::Duration;

use super::arguments;
use crate::backend::Claim;
use crate::backend::redis::commands::{Script, ScriptCall};

pub(crate) static SCRIPT: Script = Script::new(include_str!("retain.lua"));

/// The lock stays taken for `left`. Its reply is decoded like that of a release: a lock that is
/// retained while somebody waits has to be looked after, like one that was handed over.
pub(super) fn call(claim: &Claim, left: Duration, has_queue: bool) -> ScriptCall {
    let queue = claim.key.queue_key();
    let keys = [claim.key.redis_key(), &queue];
    let (retained, left) = (claim.owner.retained(), arguments::millis_up(left));
    let args = [claim.owner.as_str(), &retained, &left];
    ScriptCall::new(&SCRIPT, if has_queue { &keys } else { &keys[..1] }, &args)
}
