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
pub(in crate::backend::redis::commands) mod words;

#[cfg(test)]
pub(crate) use digests::scripts;

/// A script after `hand_over.lua` and `join.lua`, the functions that several scripts share.
macro_rules! with_join {
    ($file:literal) => {
        $crate::backend::redis::commands::Script::new(concat!(
            include_str!("../exclusive/hand_over.lua"),
            include_str!("join.lua"),
            include_str!($file)
        ))
    };
}
use with_join;
