//! The ability of a backend to acquire several locks with one command.

use std::time::Duration;

use super::claim::Claim;
use super::outcome::Reply;
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
        place: usize,
        holder: String,
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
