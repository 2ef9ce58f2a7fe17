//! A script: its text, the digest by which clients call it, and what runs for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deadpool_redis::redis;

/// A script that a server may be told of. Clones share their text.
#[derive(Debug, Clone)]
pub struct Script {
    pub(crate) digest: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) runs: Arc<str>,
    /// Names the compiled form in the interpreter of each thread.
    pub(crate) id: u64,
}

impl Script {
    /// A script of this text.
    pub fn new(text: &str) -> Self {
        let digest = redis::Script::new(text).get_hash().into();
        let text: Arc<str> = text.into();
        Self { digest, runs: Arc::clone(&text), text, id: fresh_id() }
    }

    /// The same script for its clients, but the server runs this text instead: for tests that need
    /// another value of one of its constants.
    #[must_use]
    pub fn running(self, text: &str) -> Self {
        Self { runs: text.into(), id: fresh_id(), ..self }
    }

    /// The SHA-1 of its text.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
