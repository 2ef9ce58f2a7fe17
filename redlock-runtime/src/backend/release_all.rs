//! The ability of a backend to release several locks with one command.

use std::pin::Pin;
use std::time::Duration;

use super::claim::Release;
use super::outcome::{Fault, Found};

/// What came of each of several releases.
pub(crate) type EachReleased<'a> =
    Pin<Box<dyn Future<Output = Vec<Result<Found, Fault>>> + Send + 'a>>;

/// Releases several locks, if one command reaches all of them.
pub(crate) trait ReleaseAll: Send + Sync {
    /// Can one command release all of these?
    fn reaches(&self, releases: &[Release<'_>]) -> bool;

    /// Releases each of these locks as [`LockBackend::release`](super::LockBackend::release) does.
    /// Each has an outcome of its own, in their order. A fault of the command is that of each.
    fn release_all<'a>(&'a self, releases: &'a [Release<'a>], within: Duration)
    -> EachReleased<'a>;
}
