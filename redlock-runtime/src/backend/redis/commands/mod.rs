//! The scripts of a lock: their calls, and what they reply.

pub(crate) mod queue_reply;
pub(crate) mod release;
pub(crate) mod reply;
pub(crate) mod script;
pub(crate) mod send_script;

pub(crate) use release::Release;
pub(crate) use script::{
    ACQUIRE, ENQUEUE, Invocation, NUDGE, RAISE, RELEASE_HINT, RENEW, ROTATE, Script,
};
pub(crate) use send_script::{
    Failure, ScriptCall, is_passing, no_connection, no_reply, on_abandoned, send_script,
};
