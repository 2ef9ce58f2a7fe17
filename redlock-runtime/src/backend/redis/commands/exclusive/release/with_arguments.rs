//! The release of a lock whose owner may be in a queue, or gives fencing tokens back.

use crate::backend::redis::commands::exclusive::arguments;
use crate::backend::redis::commands::{Script, ScriptCall};
use crate::backend::{Release, TokensUsed};

/// `script`: that of the release.
pub(super) fn with_arguments(
    script: &'static Script,
    release: Release<'_>,
    has_queue: bool,
) -> ScriptCall {
    let Release { claim, give_back, .. } = release;
    let keys = claim.key.with_helpers();
    let keys = keys.names();
    let leave = arguments::leave(release);
    let [used, reserved, life] = match give_back {
        Some(TokensUsed { used, reserved }) => {
            [used.to_string(), reserved.to_string(), arguments::counter_life(claim)]
        }
        None => Default::default(),
    };
    let args = [claim.owner.as_str(), &leave, &used, &reserved, &life];
    // Empty arguments at the end are left out, because each argument costs the server time.
    let said = args.iter().rposition(|arg| !arg.is_empty()).map_or(0, |last| last + 1);
    ScriptCall::new(script, if has_queue { &keys } else { &keys[..1] }, &args[..said])
}
