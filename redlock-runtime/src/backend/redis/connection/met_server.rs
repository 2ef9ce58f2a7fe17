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
    /// When the connection began to be made, or the first counting birth when it met its server, in
    /// nanoseconds: a connection with an earlier birth may lead to another server.
    birth: u64,
    /// When the connection began to be made, in nanoseconds.
    begun: u64,
    counting: CountingConnections,
}

impl Superseded {
    pub(crate) fn is_set(&self) -> bool {
        self.birth < self.counting.first.load(Ordering::Acquire) || self.is_left()
    }

    /// Was the server left to which the connection leads?
    pub(crate) fn is_left(&self) -> bool {
        self.begun < self.counting.left.load(Ordering::Acquire)
    }

    /// Did its connection begin before the other one?
    pub(crate) fn is_older(&self, than: &Self) -> bool {
        self.birth < than.birth
    }
}

/// Which connections of a node still count. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountingConnections {
    /// Connections that were born before this do not count, in nanoseconds.
    first: Arc<AtomicU64>,
    /// One that began before this leads to a server that was left.
    left: Arc<AtomicU64>,
}

impl CountingConnections {
    /// A connection that has `begun` then counts until a later call supersedes it, unless the
    /// server to which it leads was left meanwhile.
    pub(crate) fn begin(&self, begun: Moment) -> Superseded {
        let begun = begun.nanos();
        let birth = begun.max(self.first.load(Ordering::Acquire));
        Superseded { birth, begun, counting: self.clone() }
    }

    /// No connection counts that has met its server by now.
    pub(crate) fn supersede_all(&self, now: Moment) {
        let next = |first: u64| Some(first.max(now.nanos()) + 1);
        let _ = self.first.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// No connection counts that has `begun` by then, whenever it meets its server: another server
    /// has taken the place of that one. Those that began later count on.
    pub(crate) fn leave(&self, begun: Moment) {
        self.left.fetch_max(begun.nanos() + 1, Ordering::AcqRel);
    }

    /// This connection does not count any more, nor does one that began before it.
    pub(crate) fn supersede(&self, last: &Superseded) {
        self.first.fetch_max(last.birth + 1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    /// As when a connection began before the address led to another server, and met that one.
    #[test]
    fn a_connection_that_met_a_server_anew_outlives_one_to_a_server_that_was_left() {
        let connections = CountingConnections::default();
        let to_old = connections.begin(at(10));
        connections.supersede_all(at(50));
        let to_new = connections.begin(at(30));
        assert!(to_old.is_set() && !to_new.is_set());
        connections.leave(at(10));
        assert!(!to_new.is_set());
    }

    #[test]
    fn a_connection_to_a_server_that_was_left_counts_no_more_if_it_meets_it_later() {
        let connections = CountingConnections::default();
        connections.leave(at(10));
        assert!(connections.begin(at(10)).is_set());
        assert!(!connections.begin(at(11)).is_set());
    }

    /// Other connections have met another server, or this one as a replica, while it was made.
    #[test]
    fn a_connection_that_met_its_server_late_counts_no_more_once_that_is_left() {
        let connections = CountingConnections::default();
        connections.supersede_all(at(50));
        let (to_old, to_new) = (connections.begin(at(10)), connections.begin(at(11)));
        assert!(!to_old.is_set() && !to_new.is_set());
        connections.leave(at(10));
        assert!(to_old.is_set() && !to_new.is_set());
    }
}
