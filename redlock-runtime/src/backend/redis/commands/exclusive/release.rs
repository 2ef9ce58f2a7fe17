//! The release command: releases a lock, or leaves its queue.

use deadpool_redis::redis::Value;

use self::with_arguments::with_arguments;
use super::{replies, retain};
use crate::backend::redis::commands::{Invocation, Part, Script, ScriptCall, Verb, with_hand_over};
use crate::backend::{Claim, Found, Release};

mod with_arguments;

pub(crate) static SCRIPT: Script = with_hand_over!(first "quick_release.lua", "release.lua");

/// `has_queue`: the user of this client may use the helper keys of the lock. Without them only the
/// lock itself is released.
pub(crate) fn call(release: Release<'_>, has_queue: bool) -> ScriptCall {
    match release.retain {
        Some(left) => retain::call(release.claim, left, has_queue),
        None => match part(release).filter(|_| has_queue) {
            Some(part) => ScriptCall::batchable(part),
            None => with_arguments(&SCRIPT, release, has_queue),
        },
    }
}

/// What can be part of a batch.
pub(crate) fn part(release: Release<'_>) -> Option<Part> {
    release.may_join().then(|| Part::new(Verb::Release, release.claim, by_itself))
}

/// The release of a lock whose owner is in no queue, and gives no fencing tokens back.
fn by_itself(claim: &Claim) -> Invocation {
    Invocation::new(&SCRIPT, &claim.key.with_helpers().names(), &[claim.owner.as_str()])
}

/// What the release found, and whether somebody waits who has, or shall have, the lock next.
pub(crate) fn decode(value: &Value) -> Option<(Found, bool)> {
    match value {
        Value::Int(2) => Some((Found::Ours, true)),
        value => Some((replies::found(value)?, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_says_whose_the_lock_was() {
        assert_eq!(decode(&Value::Int(2)), Some((Found::Ours, true)));
        assert_eq!(decode(&Value::Int(-1)), Some((Found::Stolen, false)));
        assert_eq!(decode(&Value::Int(3)), None);
    }
}
