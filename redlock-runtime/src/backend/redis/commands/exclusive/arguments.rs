//! The arguments that several commands share.

use std::time::Duration;

use crate::backend::{Claim, Look, Release};
use crate::options::up_to_millis;

/// How long a fencing counter outlives a lease whose fencing tokens were reserved. After that, the
/// mark of the slot keeps later tokens above them.
const COUNTER_LIFE: Duration = Duration::from_secs(10);

/// The lease, in milliseconds.
pub(in crate::backend::redis::commands) fn expire(claim: &Claim) -> String {
    expire_millis(claim).to_string()
}

/// The lease, in milliseconds, as a number.
pub(super) fn expire_millis(claim: &Claim) -> u64 {
    u64::try_from(claim.expire.as_millis()).unwrap_or(u64::MAX)
}

/// In milliseconds, and not shorter.
pub(super) fn millis_up(duration: Duration) -> String {
    up_to_millis(duration).as_millis().to_string()
}

/// Where in the queue the owner may stand; empty: nowhere.
pub(in crate::backend::redis::commands) fn leave(release: Release<'_>) -> String {
    match release.ahead {
        _ if !release.may_be_queued => String::new(),
        Some(ahead) => ahead.to_string(),
        None => "leave".to_owned(),
    }
}

/// How many were ahead of an entry, and whether dead ones right ahead of it leave the queue.
pub(in crate::backend::redis::commands) fn look(look: Look) -> (String, &'static str) {
    (look.ahead.to_string(), if look.removes_dead { "drop" } else { "" })
}

/// How long the fencing counter lives, in milliseconds.
pub(in crate::backend::redis::commands) fn counter_life(claim: &Claim) -> String {
    (COUNTER_LIFE + claim.expire).as_millis().to_string()
}
