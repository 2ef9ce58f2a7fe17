//! The commands that are sent to a node.

pub(crate) mod by_kind;
mod connect;
mod deadline;
pub(crate) mod exclusive;
mod failure;
mod part;
pub(crate) mod reply;
mod script;
mod script_call;
mod send_script;
pub(crate) mod shared;

pub(crate) use connect::{connect, open_connection};
pub(crate) use deadline::Deadline;
pub(crate) use failure::{Failure, no_connection, no_reply};
pub(crate) use part::{Part, PartAnswer, Verb};
pub(crate) use script::{Invocation, Script, with_hand_over};
pub(crate) use script_call::ScriptCall;
pub(crate) use send_script::{ScriptAnswer, is_passing, no_undo, send_script};
