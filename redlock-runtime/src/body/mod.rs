//! A body under a lease: when it may run, and which locks it holds.

pub(crate) mod protect;
pub(crate) mod reentrancy;
pub(crate) mod span;
pub(crate) mod watch;

pub(crate) use protect::Protect;
pub(crate) use reentrancy::HoldLink;
pub(crate) use reentrancy::entering::{Entering, Reentry};
pub(crate) use reentrancy::lookup::Reenterable;
pub(crate) use span::span;
pub(crate) use watch::Watch;
