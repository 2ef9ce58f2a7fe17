//! The rules by which N nodes decide.

use std::sync::Arc;
use std::time::Duration;

use super::restart_guard::RestartGuard;

/// The rules by which N nodes decide.
#[derive(Debug)]
pub(crate) struct Rules {
    /// At least a majority of the nodes, and at most all of them.
    pub(crate) quorum: usize,
    /// `None` trusts nodes to remember every lease they granted.
    pub(crate) guard: Option<Arc<RestartGuard>>,
    /// How long a node may wait for its replicas before it answers.
    pub(crate) replica_wait: Duration,
    /// How long one command to a node may take.
    pub(crate) reply_timeout: Duration,
}

/// More than half.
pub(crate) fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
