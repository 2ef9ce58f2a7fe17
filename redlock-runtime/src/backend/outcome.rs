//! Outcomes of commands: what a command found, and what is known when it failed.

use std::pin::Pin;
use std::time::Duration;

use super::tokens::FencingTokens;
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::state::LostReason;

/// The future answer of a backend.
pub(crate) type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// The answer to an acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted {
        fencing_tokens: FencingTokens,
        /// The connection of an earlier try of the same call broke, and that try may still arrive:
        /// it acquires the lock again if the lock is free by then. A clean-up must follow the
        /// release.
        was_cut: bool,
    },
    Refused {
        /// The owner value in the key; `None`: it is not known, or nobody holds the lock, and
        /// somebody else comes first.
        holder: Option<String>,
        /// When the holder's lease ends; `None`: the key has no expiry, or nobody holds the lock.
        free_in: Option<Duration>,
        /// A part of the same call may have acquired the lock on a node, or still arrive: a
        /// clean-up must follow.
        was_cut: bool,
        /// No owner holds the lock: several competed at once, and each was granted a part of the
        /// nodes.
        is_split: bool,
    },
}

impl Acquired {
    /// Granted with one fencing token, to the first try.
    pub(crate) fn granted(fencing_token: FencingToken) -> Self {
        let fencing_tokens = FencingTokens::one(fencing_token);
        Self::Granted { fencing_tokens, was_cut: false }
    }

    /// Refused to the first try, by a backend where one node decides, so that no vote is split.
    pub(crate) fn refused(holder: impl Into<Option<String>>, free_in: Option<Duration>) -> Self {
        Self::Refused { holder: holder.into(), free_in, was_cut: false, is_split: false }
    }
}

/// An answer that another owner has the lock, or may have it.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    /// `None`: it is not known, or nobody holds the lock, and somebody else comes first.
    pub(crate) holder: Option<String>,
    pub(crate) free_in: Option<Duration>,
    /// Several competed at once, and none is known to have enough votes.
    pub(crate) is_split: bool,
}

impl Busy {
    /// The answer of a server that decides alone.
    pub(crate) fn decided(holder: impl Into<Option<String>>, free_in: Option<Duration>) -> Self {
        Self { holder: holder.into(), free_in, is_split: false }
    }
}

/// Which owner a renewal or a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The owner held the lock, and the command was carried out.
    Ours,
    /// The key was gone.
    Gone,
    /// The key had another owner.
    Stolen,
    /// A release only: the owner no longer holds the lock, but an earlier try of the same
    /// release was not answered, and may have freed the lock or handed it over.
    Unclear,
}

impl Found {
    /// Why the lease is lost, if what a renewal or another command of the holder found says so.
    pub(crate) fn loss(self) -> Option<LostReason> {
        match self {
            Self::Gone => Some(LostReason::Expired),
            Self::Stolen => Some(LostReason::Stolen),
            Self::Ours | Self::Unclear => None,
        }
    }
}

/// A command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) nodes: Vec<NodeError>,
    /// The command may have been carried out: no reply came, or an error that proves nothing.
    pub(crate) is_unknown: bool,
    /// Retrying cannot help before a person has changed something.
    pub(crate) is_final: bool,
}

impl Fault {
    /// The command was not carried out, and trying again may help.
    pub(crate) fn known(nodes: Vec<NodeError>) -> Self {
        Self { nodes, is_unknown: false, is_final: false }
    }

    /// Would a release that is repeated meet the same fault? A proxy whose error is not one of
    /// Redis' may have lost its connection to the server, and have another one the next time.
    pub(crate) fn ends_releases(&self) -> bool {
        let may_be_of_proxy = |node: &NodeError| node.kind() == NodeErrorKind::Refused;
        self.is_final && !(self.is_unknown && self.nodes.iter().any(may_be_of_proxy))
    }

    /// What each node said, in one line.
    pub(crate) fn nodes_text(&self) -> String {
        self.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}
