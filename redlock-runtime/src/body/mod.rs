//! A body under a lease: when it may run, which locks it holds, and how it ends.

pub(crate) mod finish;
pub(crate) mod protect;
pub(crate) mod reentrancy;
pub(crate) mod watch;

pub(crate) use protect::Protect;
pub(crate) use reentrancy::{Entering, Held, HoldLink, Reentry};
pub(crate) use watch::Watch;
