//! The locks of shared kinds, readers and permits: one file for each command, with its call and its
//! reply, beside its script.

pub(crate) mod acquire;
#[cfg(test)]
mod digests;
pub(crate) mod downgrade;
pub(crate) mod enqueue;
pub(crate) mod raise;
pub(crate) mod release;
pub(crate) mod renew;
pub(in crate::backend::redis) mod words;

#[cfg(test)]
pub(crate) use digests::scripts;
