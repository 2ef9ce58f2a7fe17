//! What a connection met at the address of its node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::redis::clock::CLOCK;
use crate::clock::Moment;

/// The server that a connection leads to, as it was when the connection was made.
#[derive(Debug, Clone)]
pub(crate) struct MetServer {
    /// When the connection began to be made. A later one may lead to another server.
    pub(crate) begun: Moment,
    /// Its process, whether it was promoted since or not; `None`: it was not identified.
    pub(crate) run_id: Option<Arc<str>>,
    pub(crate) superseded: Superseded,
}

impl MetServer {
    /// A server that is not identified.
    pub(crate) fn unknown() -> Self {
        Self { begun: CLOCK.now(), run_id: None, superseded: Superseded::default() }
    }
}

/// Has this node met another server since, or the same one as a replica, while the connections to
/// the first one lived on? What they bring no longer counts: each node has one vote.
/// Clones share the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Superseded {
    is_set: Arc<AtomicBool>,
}

impl Superseded {
    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }
}
