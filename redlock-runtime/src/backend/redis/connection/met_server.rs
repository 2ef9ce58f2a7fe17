//! What a connection met at the address of its node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
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

#[cfg(test)]
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
    /// The age of the connection: one that began later has a higher number.
    age: u64,
    oldest: Arc<AtomicU64>,
}

impl Superseded {
    pub(crate) fn is_set(&self) -> bool {
        self.age < self.oldest.load(Ordering::Acquire)
    }

    /// Did its connection begin before the other one?
    pub(crate) fn is_older(&self, than: &Self) -> bool {
        self.age < than.age
    }
}

/// The age of the oldest connection of a node that still counts, in nanoseconds. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OldestConnection(Arc<AtomicU64>);

impl OldestConnection {
    /// A connection that begins now counts until a later call supersedes it.
    pub(crate) fn begin(&self, now: Moment) -> Superseded {
        let age = now.nanos().max(self.0.load(Ordering::Acquire));
        Superseded { age, oldest: Arc::clone(&self.0) }
    }

    /// No connection counts that has begun by then.
    pub(crate) fn supersede_all(&self, begun: Moment) {
        let next = |oldest: u64| Some(oldest.max(begun.nanos()) + 1);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// This connection does not count any more, nor does one that began before it.
    pub(crate) fn supersede(&self, last: &Superseded) {
        self.0.fetch_max(last.age + 1, Ordering::AcqRel);
    }
}
