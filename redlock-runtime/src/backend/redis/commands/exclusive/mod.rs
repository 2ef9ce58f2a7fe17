//! The exclusive lock: one file for each command, with its call and its reply, beside its script.

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(in crate::backend::redis::commands) mod arguments;
pub(crate) mod batch;
#[cfg(test)]
mod digests;
pub(crate) mod enqueue;
pub(crate) mod nudge;
pub(crate) mod raise;
pub(crate) mod release;
pub(crate) mod release_all;
pub(crate) mod release_hint;
pub(crate) mod renew;
pub(in crate::backend::redis::commands) mod replies;
pub(crate) mod retain;
pub(crate) mod rotate;
#[cfg(test)]
pub(in crate::backend::redis::commands) mod samples;

#[cfg(test)]
pub(crate) use digests::scripts;
