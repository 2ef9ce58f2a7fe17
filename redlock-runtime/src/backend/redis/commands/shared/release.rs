//! The release command: leaves the holders, or the queue. The reply is that of the exclusive kind.

use super::words;
use crate::backend::Release;
use crate::backend::redis::commands::exclusive::arguments;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};

pub(crate) static SCRIPT: Script = with_hand_over!(first "quick_release.lua", "release.lua");

/// `has_queue`: the user of this client may use the queue and the fencing keys of the lock. Without
/// them the owner only leaves the holders.
pub(crate) fn call(release: Release<'_>, has_queue: bool) -> ScriptCall {
    let claim = release.claim;
    let keys = words::keys(claim);
    let keys = keys.each_ref().map(String::as_str);
    let leave = arguments::leave(release);
    let args = [claim.owner.as_str(), words::marker(claim.kind), &leave];
    let [lock, mark, counter, queue, holders] = keys;
    let keys = [lock, holders, mark, counter, queue];
    ScriptCall::new(&SCRIPT, if has_queue { &keys } else { &keys[..2] }, &args)
}
