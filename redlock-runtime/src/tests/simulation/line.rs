//! Entries in the queue of a simulated server, and what it publishes.

use crate::backend::{Claim, QueueSignal};

/// One entry of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) claim: Claim,
    pub(crate) reserve: u32,
    pub(crate) process: usize,
    /// Otherwise its process asks now and then.
    pub(crate) is_told: bool,
}

impl Entry {
    /// Of a process that is told.
    pub(crate) fn told(claim: &Claim, reserve: u32) -> Self {
        Self { claim: claim.clone(), reserve, process: 0, is_told: true }
    }

    /// Where its process can be told.
    pub(super) fn channel(&self) -> Option<String> {
        self.is_told.then(|| channel(self.process))
    }
}

/// The channel of a process.
pub(super) fn channel(process: usize) -> String {
    format!("redlock:{process}")
}

/// The process that listens on a channel.
pub(super) fn process(channel: &[u8]) -> Option<usize> {
    str::from_utf8(channel).ok()?.strip_prefix("redlock:")?.parse().ok()
}

/// A message of a server to a process that waits.
#[derive(Debug, Clone)]
pub(crate) struct ReleaseHint {
    pub(crate) process: usize,
    pub(crate) owner: String,
    pub(crate) call: Call,
}

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Signal(QueueSignal),
    /// Does this owner still wait?
    Ping(Claim),
}
