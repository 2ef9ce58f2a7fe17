//! `NodeError`: the error of one node.

use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// What went wrong on one Redis node.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = redlock::Redlock::connect("redis://127.0.0.1:1").await.unwrap_err();
/// let redlock::LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
/// assert_eq!(nodes[0].node(), "redis://127.0.0.1:1");
/// assert_eq!(nodes[0].kind(), redlock::NodeErrorKind::Unreachable);
/// # }
/// ```
///
/// Its [`source`](std::error::Error::source) is the error of the Redis client, a
/// [`RedisError`](deadpool_redis::redis::RedisError), if the client reported one. Two node errors
/// are equal when node, kind and message are, whatever their sources.
#[derive(Debug, Clone)]
pub struct NodeError {
    node: String,
    kind: NodeErrorKind,
    message: String,
    /// What to do, where the kind does not tell: no server failed.
    own_advice: Option<&'static str>,
    /// The command was not sent, so that the error says nothing of the server.
    is_unsent: bool,
    /// The source is only read, so it is as fit for `catch_unwind` as the rest.
    source: Option<Arc<AssertUnwindSafe<Box<dyn Error + Send + Sync>>>>,
}

impl NodeError {
    pub(crate) fn new(node: &str, kind: NodeErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let node = node.to_owned();
        Self { node, kind, message, own_advice: None, is_unsent: false, source: None }
    }

    /// The command was not sent, for a reason in this process.
    pub(crate) fn unsent(mut self) -> Self {
        self.is_unsent = true;
        self
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    pub(crate) fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(AssertUnwindSafe(Box::new(source))));
        self
    }

    /// The message comes with this advice, in the place of that of the kind.
    pub(crate) fn advising(mut self, advice: &'static str) -> Self {
        self.own_advice = Some(advice);
        self
    }

    pub(crate) fn add(&mut self, more: &str) {
        self.message.push_str(more);
    }

    /// No login was given where the server wants one.
    fn is_login_missing(&self) -> bool {
        ["NOAUTH", "Authentication required"].iter().any(|words| self.message.contains(words))
    }

    /// This process, or its machine, has as many open files as it may have.
    pub(super) fn is_out_of_descriptors(&self) -> bool {
        // EMFILE and ENFILE, as the standard library shows them.
        ["(os error 24)", "(os error 23)"].iter().any(|words| self.message.contains(words))
    }

    /// No server of a cluster could be reached, perhaps but for those that the client was told of.
    fn is_cut_off_cluster(&self) -> bool {
        let is_connected = self.kind == NodeErrorKind::NoReply && self.message.contains("no reply");
        self.node.starts_with("cluster ") && !is_connected
    }

    /// The master of the key could not be reached, or its cluster has none for it at the moment: a
    /// redirection that is left is one that the client library could not follow.
    fn is_without_master(&self) -> bool {
        self.kind == NodeErrorKind::Cluster
            && self.node.starts_with("cluster ")
            && ["CLUSTERDOWN", "MOVED", "ASK"].iter().any(|code| self.message.starts_with(code))
    }

    /// The keys of a lock are on two masters of its cluster.
    fn is_slot_on_its_way(&self) -> bool {
        self.node.starts_with("cluster ") && self.message.starts_with("TRYAGAIN")
    }

    /// The key of the fencing tokens holds no number, or the last one.
    pub(super) fn has_no_fencing_token(&self) -> bool {
        self.message.starts_with("FENCE ")
    }

    /// The server, or a proxy before it, does not have a command.
    fn lacks_a_command(&self) -> bool {
        ["unknown command", "Unknown Redis command"].iter().any(|it| self.message.contains(it))
    }

    /// Does the server, or one of a cluster, answer no client at the moment? If a person has to
    /// change something, it is no outage: each call gets its own error.
    pub(crate) fn is_outage(&self) -> bool {
        self.kind.is_outage() || self.is_without_master()
    }

    /// What to do about it.
    fn advice(&self) -> &'static str {
        self.own_advice.unwrap_or_else(|| self.advice_of_kind())
    }

    fn advice_of_kind(&self) -> &'static str {
        match self.kind {
            NodeErrorKind::Cluster if self.is_without_master() => WITHOUT_MASTER,
            NodeErrorKind::Cluster if self.is_slot_on_its_way() => {
                "the slot of this key is being moved, and its free locks are granted once all of \
                 it has arrived: `CLUSTER NODES` shows it in brackets, and \
                 `redis-cli --cluster fix` ends a move that was left halfway"
            }
            NodeErrorKind::Authentication if self.message.starts_with("DENIED") => {
                "the server is in protected mode, in which it serves its own machine only: give it \
                 a password (`requirepass`, or an ACL user) and put that into the URL"
            }
            NodeErrorKind::Authentication if !self.is_login_missing() => {
                "the server refused this user or password: is it escaped in the URL (`%40` for \
                 `@`), and does the server have one?"
            }
            NodeErrorKind::Unreachable if self.is_out_of_descriptors() => {
                "raise the limit of open files (`ulimit -n`), or find who leaks connections"
            }
            NodeErrorKind::Unreachable | NodeErrorKind::NoReply if self.is_cut_off_cluster() => {
                "a cluster is reached at the addresses that its servers announce \
                 (`CLUSTER SLOTS`, `cluster-announce-ip`): are they running, and can they be \
                 reached from here?"
            }
            NodeErrorKind::Protocol if self.message.contains("`run_id`") => {
                "or build the client without the guard: `restart_guard(false)`"
            }
            NodeErrorKind::Refused if self.has_no_fencing_token() => {
                "it holds no number, or the last one that a fencing token can be: who wrote that? \
                 Delete this key once nobody holds a lock with such a token. Or does the clock of \
                 the server show a year after 2255?"
            }
            NodeErrorKind::Refused if self.lacks_a_command() => {
                "docs/security.md lists the commands that locks need: was this one taken from the \
                 server by `rename-command`, or does a proxy before it not know it?"
            }
            NodeErrorKind::NoReplicas if !self.message.contains("NOREPLICAS") => {
                "bring the replicas back, or lower `min_replicas` of this client"
            }
            kind => kind.advice(),
        }
    }

    /// The node's address, without credentials.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = redlock::Redlock::connect("redis://127.0.0.1:1").await.unwrap_err();
    /// let redlock::LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
    /// assert_eq!(nodes[0].node(), "redis://127.0.0.1:1");
    /// # }
    /// ```
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What kind of failure it is.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = redlock::Redlock::connect("redis://127.0.0.1:1").await.unwrap_err();
    /// let redlock::LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
    /// assert_eq!(nodes[0].kind(), redlock::NodeErrorKind::Unreachable);
    /// # }
    /// ```
    pub fn kind(&self) -> NodeErrorKind {
        self.kind
    }

    /// What the node, or the operating system, said.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = redlock::Redlock::connect("redis://127.0.0.1:1").await.unwrap_err();
    /// let redlock::LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
    /// assert!(!nodes[0].message().is_empty()); // such as "Connection refused"
    /// # }
    /// ```
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.node, self.message, self.advice())
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &*source.0 as _)
    }
}

impl PartialEq for NodeError {
    fn eq(&self, other: &Self) -> bool {
        (&self.node, self.kind, &self.message) == (&other.node, other.kind, &other.message)
    }
}

impl Eq for NodeError {}

/// The kinds of failure of a Redis node, told apart by what a person does about them.
///
/// ```
/// assert_ne!(redlock::NodeErrorKind::Unreachable, redlock::NodeErrorKind::NoReply);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// No connection could be made, or it broke.
    Unreachable,
    /// Connected, but no reply within `reply_timeout`. Or there was no time left for one; or the
    /// lock was granted more than once to a call whose task was polled too late, and taken back.
    NoReply,
    /// A certificate was refused, on this side or on the server's, or the server speaks no TLS.
    Tls,
    /// The password or user name was refused, or one is needed.
    Authentication,
    /// The ACL of the user forbids a command or a key.
    NoPermission,
    /// The server is loading its data from disk.
    Loading,
    /// The server is busy with a script of another client.
    Busy,
    /// The server is out of memory.
    OutOfMemory,
    /// The server refuses writes because it cannot save its data.
    CannotPersist,
    /// The server refuses writes because too few replicas are connected.
    NoReplicas,
    /// The server is a read-only replica, or lost its master, or another one has its address by
    /// now.
    ReadOnly,
    /// The server is a sentinel: it has no locks, and knows who does.
    Sentinel,
    /// The sentinels know no master of this name that is up.
    NoMaster,
    /// The key holds something that is not a lock.
    WrongType,
    /// The server belongs to a Redis Cluster, or the cluster is down.
    Cluster,
    /// The server has no room for another connection.
    TooManyClients,
    /// The server was restarted or replaced, or its clock jumped: it may have forgotten leases, and
    /// has no vote until they are over.
    Quarantined,
    /// It is the same server as another one of the group: two votes would be one.
    Duplicate,
    /// The lock is held in a `memory` store, on the paused clock of another runtime.
    OtherClock,
    /// The reply made no sense.
    Protocol,
    /// Any other error reply. If Redis does not give it itself, it may be that of a proxy, and the
    /// command may have been carried out. Or callers took each other's votes on N masters, or one
    /// of several keys was lost while others were waited for.
    Refused,
}

/// What to do where a cluster, known as one, has no master for a key at the moment.
pub(crate) const WITHOUT_MASTER: &str = "is the master of this key running, or being replaced? \
     `CLUSTER NODES` shows it, and whether all slots are served; `Redlock::health` and \
     `redlock doctor` say what keeps a client from a master";

impl NodeErrorKind {
    pub(crate) fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::NoReply
                | Self::Loading
                | Self::Busy
                | Self::NoMaster
                | Self::TooManyClients
        )
    }

    /// Does an error reply of this kind stay the same until a person has changed something?
    pub(crate) fn is_final(self) -> bool {
        matches!(
            self,
            Self::Tls
                | Self::Authentication
                | Self::NoPermission
                | Self::OutOfMemory
                | Self::WrongType
                | Self::Refused
        )
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Unreachable => "is the server running, and the address right?",
            Self::NoReply => "the server is overloaded, frozen or cut off",
            Self::Tls => {
                "does the server speak TLS at this port, with a certificate for this host name? \
                 `Tls` adds a private CA and a client certificate"
            }
            Self::Authentication => {
                "put user and password into the URL: redis://user:password@host:6379"
            }
            Self::NoPermission => "grant the commands and keys of docs/security.md to this user",
            Self::Loading => "the server is starting; try again soon",
            Self::Busy => "a script blocks the server; see SCRIPT KILL",
            Self::OutOfMemory => "free memory or raise `maxmemory`; keep `noeviction`",
            Self::CannotPersist => "check the server's disk; its log says why saving fails",
            Self::NoReplicas => "bring the replicas back, or lower `min-replicas-to-write`",
            Self::ReadOnly => "connect to the master",
            Self::Sentinel => {
                "use `.sentinel(urls, name)` on the builder, REDLOCK_SENTINEL in the environment, \
                 or `--sentinel NAME` of the command line"
            }
            Self::NoMaster => "is the master's name right, or is a failover under way?",
            Self::WrongType => "another program uses this key; set a `prefix` of its own",
            Self::Cluster => {
                "a Redis Cluster is `.cluster(urls)` on the builder, REDLOCK_CLUSTER=1 in the \
                 environment, or `--cluster` of the command line; is it up, and are all its slots \
                 served?"
            }
            Self::TooManyClients => "raise `maxclients`, or find who leaks connections",
            Self::Quarantined => {
                "it votes again by itself; `restart_guard(false)` is for servers that lose nothing"
            }
            Self::Duplicate => "name each server once; two databases of a server are one server",
            Self::OtherClock => "give each test a store of its own: `.memory()` on the builder",
            Self::Protocol => "is this a redis server?",
            Self::Refused => "the log of the server, or of a proxy before it, may say more",
        }
    }
}
