//! The commands that are sent to a node.

pub(crate) mod exclusive;
mod failure;
pub(crate) mod reply;
mod script;
mod send_script;
pub(crate) mod shared;

pub(crate) use failure::{Failure, no_connection, no_reply};
pub(crate) use script::{Invocation, Script, with_hand_over};
pub(crate) use send_script::{Deadline, ScriptCall, is_passing, no_undo, send_script};
