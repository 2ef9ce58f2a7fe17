//! Release: the task that sends it, also without a caller, and the undo of commands without a reply.

pub(crate) mod inline;
pub(crate) mod release_future;
pub(crate) mod task;
pub(crate) mod undo;

pub(crate) use release_future::ReleaseFuture;
pub(crate) use task::ReleaseTask;
pub(crate) use undo::{clean_up, leave};
