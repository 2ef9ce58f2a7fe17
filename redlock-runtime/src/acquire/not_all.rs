//! The errors of a call that was granted a lock and has not got it, or some of several keys only.
//! It is busy only where another owner has a key.

use super::observed::{CallTime, Observed};
use crate::clock::Moment;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::hold::Hold;
use crate::key::LockKey;
use crate::state::LostReason;

/// No server in particular.
const NODE: &str = "redis";

/// The key of this hold was lost while others were waited for.
pub(super) fn lost(hold: &Hold) -> LockError {
    let key = &hold.claim.key;
    let reason = hold.lost().unwrap_or(LostReason::Expired);
    let kind = match reason {
        // Another owner took the key. The caller sets the time.
        LostReason::Stolen => {
            let time = CallTime { started: Moment::ZERO, now: Moment::ZERO };
            return Observed::default().error(key, time, 1, None);
        }
        LostReason::Unreachable => NodeErrorKind::NoReply,
        _ => NodeErrorKind::Refused,
    };
    let message = format!("it was lost while other keys were waited for: {reason}");
    unavailable(key, NodeError::new(NODE, kind, message).advising(reason.advice()))
}

/// The time of the call was over before there was an answer for this key.
pub(super) fn too_late(key: &LockKey) -> LockError {
    let message = "the time was over before its answer could come, as the other keys took too long";
    let node = NodeError::new(NODE, NodeErrorKind::NoReply, message);
    unavailable(key, node.advising("choose a longer `wait`, or lock fewer keys together"))
}

/// The time of the call was over, and what it was granted was taken back: it was polled too late,
/// and more than once.
pub(super) fn not_polled(key: &LockKey) -> LockError {
    let message = "the lock was granted, and taken back, as the task that asked for it was not \
                   polled for a second, or for the whole `expire`";
    let node = NodeError::new(NODE, NodeErrorKind::NoReply, message);
    unavailable(key, node.advising("find what keeps the thread of this task busy"))
}

fn unavailable(key: &LockKey, node: NodeError) -> LockError {
    LockError::Unavailable { key: key.name().to_owned(), nodes: vec![node] }
}
