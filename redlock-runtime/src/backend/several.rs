//! The abilities of a backend to acquire, and to release, several locks with one command.

use std::pin::Pin;
use std::time::Duration;

use super::claim::{Claim, Release};
use super::outcome::{Fault, Found, Reply};
use crate::fencing::FencingToken;

/// The answer to one command for several locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllAcquired {
    /// All of them, with one fencing token that no counter of them is below.
    Granted {
        fencing_token: FencingToken,
        /// As for a single lock.
        was_cut: bool,
    },
    /// None of them.
    Refused {
        /// Which claim was refused.
        key_index: usize,
        /// As for a single lock: `None` where nobody has it, and a waiter is next.
        holder: Option<String>,
        free_in: Option<Duration>,
        was_cut: bool,
    },
}

/// Acquires several locks, all or none, if one command reaches all of them.
pub(crate) trait AcquireAll: Send + Sync {
    /// Are all of these in one place?
    fn reaches(&self, claims: &[Claim]) -> bool;

    /// Acquires all of these locks if they are free. Idempotent per owners. When the outcome is
    /// unknown, the backend has already sent a release of each after the command, on the same
    /// connection.
    fn acquire_all<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, AllAcquired>;
}

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
