//! Connections without an answer that stay open for the clean-ups on them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::mutex::Mutex;

/// How many a node keeps. A server that accepts connections and answers no script would have one
/// more each second, for as long as leases are.
const MOST: usize = 8;

/// Those of one node, oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptOpen {
    connections: Mutex<VecDeque<CancellationToken>>,
}

/// Whether one connection is among them.
#[derive(Debug, Default)]
pub(super) struct KeptConnection {
    has_been: AtomicBool,
    /// Cancelled when so many newer ones are kept that this one is not any more.
    let_go: CancellationToken,
}

impl KeptOpen {
    /// Keeps a connection, unless it has been kept before. Returns what is cancelled when the
    /// clean-ups on it have to let go of it.
    pub(super) fn keep(&self, kept: &KeptConnection) -> CancellationToken {
        if !kept.has_been.swap(true, Ordering::Relaxed) {
            let oldest = {
                let mut connections = self.connections.lock();
                connections.push_back(kept.let_go.clone());
                if connections.len() > MOST { connections.pop_front() } else { None }
            };
            // Outside of the mutex: it wakes the clean-ups.
            if let Some(oldest) = oldest {
                oldest.cancel();
            }
        }
        kept.let_go.clone()
    }
}
