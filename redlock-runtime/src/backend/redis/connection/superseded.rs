//! Tells the users of a connection that another server has taken the place of its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does another server answer at the address of a node, while the connections to the first one live
/// on? What that one says counts for nothing any more: each node has one vote. Clones share the
/// answer.
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
