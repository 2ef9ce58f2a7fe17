//! The handle whose drop frees a lock, or hands it to the next caller of this process.

pub(crate) mod local_handoff;
pub(crate) mod ownership;

pub(crate) use local_handoff::{Given, give};
pub(crate) use ownership::{Ownership, free};
