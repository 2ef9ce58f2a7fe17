//! Outcomes, not booleans: what a command found, and what is known when it failed.

use std::pin::Pin;
use std::time::Duration;

use crate::error::NodeError;
use crate::fencing::FencingToken;

/// The answer of a backend that is on its way.
pub(crate) type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// The answer to an acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted {
        fencing_token: FencingToken,
        /// An earlier try of the same call broke off and may still land: it takes the lock again if
        /// that is free by then. A clean-up must go behind the release.
        was_cut: bool,
    },
    Refused {
        /// The owner value that stands in the key.
        holder: String,
        /// When the holder's lease ends; `None`: the key has no expiry.
        free_in: Option<Duration>,
        /// A part of the same call may have taken the lock somewhere, or still land: a clean-up
        /// must go behind it.
        was_cut: bool,
        /// Nobody holds it: several asked at once, and each got a part of the nodes.
        is_split: bool,
    },
}

/// Whose lock a renewal or a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was ours, and what was asked for is done.
    Ours,
    /// The key was gone.
    Gone,
    /// The key had another owner.
    Stolen,
    /// A release only: the lock is not ours any more, but an earlier try of the same release was
    /// not answered, and may have freed it or handed it over.
    Unclear,
}

/// A command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) nodes: Vec<NodeError>,
    /// The command may have been carried out: no reply came.
    pub(crate) is_unknown: bool,
    /// Trying again cannot help before a person has changed something.
    pub(crate) is_final: bool,
}
