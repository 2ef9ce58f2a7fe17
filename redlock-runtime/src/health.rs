//! `Health`: which servers of a client answer, for readiness checks and for operators.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::{NodeError, NodeErrorKind};

/// Whether the servers of a client answer: [`Redlock::health`](crate::Redlock::health).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let redlock = redlock::Redlock::builder().url("redis://127.0.0.1:1").lazy().build().await?;
/// let health = redlock.health().await;
/// assert!(!health.is_available());
/// println!("{health}"); // unavailable: redis://127.0.0.1:1: Connection refused ..
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    nodes: Vec<NodeHealth>,
    needed: usize,
}

impl Health {
    /// `needed`: how many of the nodes make a lock.
    pub(crate) fn new(nodes: Vec<NodeHealth>, needed: usize) -> Self {
        Self { nodes, needed }
    }

    pub(crate) fn into_nodes(self) -> Vec<NodeHealth> {
        self.nodes
    }

    /// Of a client that could not even ask.
    pub(crate) fn unknown() -> Self {
        Self::new(Vec::new(), 1)
    }

    /// Can locks be granted now, as far as this check sees? True if the one server is
    /// [usable](NodeHealth::is_usable), of several masters a quorum of them, and of a cluster each
    /// master, as each has its part of the keys, and all parts have one.
    ///
    /// It takes no lock, and does not see what only a lock shows: a server that refuses writes
    /// (its memory or disk is full, or it misses the replicas of its own `min-replicas-to-write`),
    /// replicas that are connected and do not confirm, or a user who may not use the keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// assert!(redlock.health().await.is_available());
    /// # Ok(()) }
    /// ```
    pub fn is_available(&self) -> bool {
        self.nodes.iter().filter(|node| node.is_usable()).count() >= self.needed
    }

    /// The servers, in the order in which the client was told of them: one for a single server or a
    /// master that sentinels watch, each master of several and of a cluster; and a cluster itself,
    /// where some of its slots have no master. Empty if they could not be asked at all: in the
    /// child of a fork, or where the background thread cannot be started, or died meanwhile.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// assert_eq!(redlock.health().await.nodes()[0].node(), "memory");
    /// # Ok(()) }
    /// ```
    pub fn nodes(&self) -> &[NodeHealth] {
        &self.nodes
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_available() { "available" } else { "unavailable" })?;
        for (index, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if index == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

/// Whether one server answers, and can hold locks.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let redlock = redlock::Redlock::builder().memory().build().await?;
/// for node in redlock.health().await.nodes() {
///     println!("{} {:?} {:?}", node.node(), node.round_trip(), node.error());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealth {
    node: String,
    round_trip: Option<Duration>,
    since: SystemTime,
    error: Option<NodeError>,
}

impl NodeHealth {
    /// What a question to `node` came to, and how long it `took`.
    pub(crate) fn new(
        node: &str,
        took: Duration,
        answer: Result<(), NodeError>,
        since: SystemTime,
    ) -> Self {
        let error = answer.err();
        let has_answered = error.as_ref().is_none_or(|error| is_answer(error.kind()));
        let round_trip = has_answered.then_some(took);
        Self { node: node.to_owned(), round_trip, since, error }
    }

    /// The same node, which may hold no locks for this reason although it answers.
    pub(crate) fn objected(mut self, objection: Option<NodeError>) -> Self {
        self.error = self.error.or(objection);
        self
    }

    /// The server, as errors and metrics name it: without credentials.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let builder = redlock::Redlock::builder().url("redis://:pw@127.0.0.1:1").lazy();
    /// let redlock = builder.build().await?;
    /// assert_eq!(redlock.health().await.nodes()[0].node(), "redis://127.0.0.1:1");
    /// # Ok(()) }
    /// ```
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Has the server answered, be it with an error, other than that it takes no connection
    /// ([`TooManyClients`](NodeErrorKind::TooManyClients), [`Tls`](NodeErrorKind::Tls))?
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().url("redis://127.0.0.1:1").lazy().build().await?;
    /// assert!(!redlock.health().await.nodes()[0].is_reachable());
    /// # Ok(()) }
    /// ```
    pub fn is_reachable(&self) -> bool {
        self.round_trip.is_some()
    }

    /// Can the server hold locks now? Otherwise [`error`](Self::error) says why not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// assert!(redlock.health().await.nodes()[0].is_usable());
    /// # Ok(()) }
    /// ```
    pub fn is_usable(&self) -> bool {
        self.error.is_none()
    }

    /// How long the server took to answer a command that does nothing, connecting included where
    /// there was no connection. `None`: it has not answered within `reply_timeout`, or takes no
    /// connection ([`is_reachable`](Self::is_reachable)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// assert_eq!(redlock.health().await.nodes()[0].round_trip(), Some(std::time::Duration::ZERO));
    /// # Ok(()) }
    /// ```
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Since when this client has found the server answering, or not answering: since it first had
    /// an answer, or since the outage began or was over. A server is asked by every call and, in an
    /// outage, in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().memory().build().await?;
    /// assert!(redlock.health().await.nodes()[0].since() <= std::time::SystemTime::now());
    /// # Ok(()) }
    /// ```
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// Why the server cannot hold locks now: it does not answer, refuses, is a replica, misses the
    /// replicas of `min_replicas`, or has no vote because it may have forgotten leases.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().url("redis://127.0.0.1:1").lazy().build().await?;
    /// let health = redlock.health().await;
    /// let error = health.nodes()[0].error().expect("nobody listens there");
    /// assert_eq!(error.kind(), redlock::NodeErrorKind::Unreachable);
    /// # Ok(()) }
    /// ```
    pub fn error(&self) -> Option<&NodeError> {
        self.error.as_ref()
    }
}

impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, self.round_trip) {
            (Some(error), _) => error.fmt(f),
            (None, Some(took)) => write!(f, "{} answers in {took:.1?}", self.node),
            (None, None) => write!(f, "{} does not answer", self.node),
        }
    }
}

/// Does an error of this kind come from the server itself?
fn is_answer(kind: NodeErrorKind) -> bool {
    !matches!(
        kind,
        NodeErrorKind::Unreachable
            | NodeErrorKind::NoReply
            | NodeErrorKind::Tls
            | NodeErrorKind::NoMaster
            | NodeErrorKind::TooManyClients
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: Option<NodeErrorKind>) -> NodeHealth {
        let answer = kind.map_or(Ok(()), |kind| Err(NodeError::new("n", kind, "refused")));
        NodeHealth::new("n", Duration::from_millis(3), answer, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn a_server_that_refuses_is_reachable_and_not_usable() {
        let is = |kind| (node(kind).is_reachable(), node(kind).is_usable());
        assert_eq!(is(None), (true, true));
        for kind in [NodeErrorKind::Loading, NodeErrorKind::NoPermission, NodeErrorKind::ReadOnly] {
            assert_eq!(is(Some(kind)), (true, false), "{kind:?}");
        }
        for kind in [NodeErrorKind::Unreachable, NodeErrorKind::NoReply, NodeErrorKind::NoMaster] {
            assert_eq!(is(Some(kind)), (false, false), "{kind:?}");
        }
    }

    #[test]
    fn locks_are_available_while_enough_nodes_are_usable() {
        let down = || node(Some(NodeErrorKind::Unreachable));
        let of_three = |nodes: [NodeHealth; 3]| Health::new(nodes.into(), 2).is_available();
        assert!(of_three([node(None), down(), node(None)]));
        assert!(!of_three([node(None), down(), down()]));
        let quarantined = NodeError::new("n", NodeErrorKind::Quarantined, "no vote");
        let objected = node(None).objected(Some(quarantined));
        assert!(objected.is_reachable() && !of_three([objected, down(), node(None)]));
        assert!(!Health::unknown().is_available());
    }

    #[test]
    fn one_line_says_all() {
        let health = Health::new(vec![node(None), node(Some(NodeErrorKind::Unreachable))], 1);
        let shown = health.to_string();
        assert!(shown.starts_with("available: n answers in 3.0ms; n: refused ("), "{shown}");
    }
}
