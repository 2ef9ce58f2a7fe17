//! Every way a lock can fail, said so that a person knows what to do next.

use std::fmt;
use std::time::Duration;

use crate::state::LostReason;

/// Why a lock could not be taken, kept or released.
///
/// Busy ([`Timeout`](Self::Timeout)), lost ([`Lost`](Self::Lost)) and unreachable
/// ([`Unavailable`](Self::Unavailable)) are three different answers, because a caller does three
/// different things: try later, compensate, raise the alarm.
///
/// ```
/// # async fn demo() -> Result<(), redlock::LockError> {
/// use redlock::{LockError, Wait};
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let _held = redlock.lock("stock-42").acquire().await?;
/// match redlock.lock("stock-42").wait(Wait::Never).acquire().await {
///     Err(LockError::Timeout { key, holder, .. }) => println!("{key} is held by {holder:?}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// A function with `#[redis_lock]` was called before [`init`](crate::init).
    #[error(
        "redlock is not initialized; call `redlock::init(\"redis://127.0.0.1:6379\").await?` once \
         at startup, before the first locked call"
    )]
    NotInitialized,

    /// [`init`](crate::init) or [`install`](crate::Redlock::install) was called a second time.
    #[error(
        "redlock is already initialized; use `redlock::global()`, or a client of its own from \
         `Redlock::builder()`"
    )]
    AlreadyInitialized,

    /// An option, a URL or the server's configuration cannot work.
    #[error("redlock configuration: {message}")]
    #[non_exhaustive]
    Config {
        /// What is wrong and what to write instead.
        message: String,
    },

    /// The key cannot name a lock.
    #[error("invalid lock key {key:?}: {reason}")]
    #[non_exhaustive]
    InvalidKey {
        /// The key as far as it was rendered, cut to 80 characters.
        key: String,
        /// What is wrong with it.
        reason: InvalidKeyReason,
    },

    /// Somebody else held the lock for the whole `wait`.
    #[error(
        "lock `{key}` was not free within {} ({attempts} attempts){}; wait longer, or \
         let the caller try again later",
        Seconds(*.waited), HeldBy(.holder.as_deref())
    )]
    #[non_exhaustive]
    Timeout {
        /// The key, without the client's prefix.
        key: String,
        /// How long the call waited.
        waited: Duration,
        /// How many times Redis was asked.
        attempts: u32,
        /// The owner that held the lock when it was last seen.
        holder: Option<String>,
    },

    /// The lease ended while the body ran, and the body was stopped.
    #[error(
        "lock `{key}` was lost after {}: {reason} ({renewals} renewals); {}",
        Seconds(*.held_for), advice(*.reason)
    )]
    #[non_exhaustive]
    Lost {
        /// The key, without the client's prefix.
        key: String,
        /// Why the lease ended.
        reason: LostReason,
        /// From the acquisition to the loss.
        held_for: Duration,
        /// How many renewals were confirmed.
        renewals: u32,
    },

    /// Redis could not be asked: nothing is known about the lock.
    #[error("redis is unavailable for lock `{key}`: {}", NodeList(.nodes))]
    #[non_exhaustive]
    Unavailable {
        /// The key, without the client's prefix; empty while a client starts up.
        key: String,
        /// What each node said.
        nodes: Vec<NodeError>,
    },

    /// `max_waiters` calls of this client wait for locks already.
    #[error(
        "too many calls of this process wait for locks, `{key}` would be one more; shed load, or \
         raise `max_waiters`"
    )]
    #[non_exhaustive]
    TooManyWaiters {
        /// The key, without the client's prefix.
        key: String,
    },

    /// The task holds this lock already and asked not to re-enter it (`reentrant = false`).
    #[error(
        "lock `{key}` is already held by this task; waiting for it would be a deadlock. Allow \
         re-entry, or take the lock once further out"
    )]
    #[non_exhaustive]
    AlreadyHeld {
        /// The key, without the client's prefix.
        key: String,
    },

    /// A lease handle was used after its lock had been released.
    #[error("lock `{key}` was released; this lease handle outlived its lock")]
    #[non_exhaustive]
    NotHeld {
        /// The key, without the client's prefix.
        key: String,
    },

    /// Redis granted the lock, but so late that the lease was nearly over; it was given back.
    #[error(
        "lock `{key}` was granted after {}, too late for its `expire` of {}; \
         choose a longer `expire`",
        Seconds(*.took), Seconds(*.expire)
    )]
    #[non_exhaustive]
    ExpireTooShort {
        /// The key, without the client's prefix.
        key: String,
        /// How long the last attempt took.
        took: Duration,
        /// The lease that was asked for.
        expire: Duration,
    },

    /// The process was forked: the background thread exists in the parent only.
    #[error(
        "redlock was initialized before this process was forked; its background thread lives in \
         the parent. Create the client after the fork"
    )]
    ForkedProcess,

    /// The background thread could not be started, or died during the call.
    #[error("the background thread of redlock failed: {message}")]
    #[non_exhaustive]
    Keeper {
        /// What the operating system said.
        message: String,
    },
}

impl LockError {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config { message: message.into() }
    }

    /// The key that the failure is about, without the client's prefix.
    ///
    /// ```
    /// assert_eq!(redlock::LockError::NotInitialized.key(), None);
    /// ```
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::InvalidKey { key, .. }
            | Self::Timeout { key, .. }
            | Self::Lost { key, .. }
            | Self::Unavailable { key, .. }
            | Self::TooManyWaiters { key }
            | Self::AlreadyHeld { key }
            | Self::NotHeld { key }
            | Self::ExpireTooShort { key, .. } => Some(key),
            Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::Config { .. }
            | Self::ForkedProcess
            | Self::Keeper { .. } => None,
        }
    }
}

/// What to do about a lost lease.
fn advice(reason: LostReason) -> &'static str {
    match reason {
        LostReason::RenewalLimit => "raise `max_renew` or `expire` if the work may take longer",
        LostReason::Expired => {
            "the process was frozen or the server lost the key; check its pauses and persistence"
        }
        LostReason::Stolen => "another owner took the key over; fencing tokens tell the two apart",
        LostReason::Unreachable => "check the connection to redis, or choose a longer `expire`",
    }
}

/// What is wrong with a key.
///
/// ```
/// # async fn demo() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let error = redlock.lock("").acquire().await.unwrap_err();
/// assert!(error.to_string().contains("the key is empty"));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKeyReason {
    /// The key is empty: all callers would share one lock.
    Empty,
    /// The named placeholder rendered to nothing: all callers without a value would share one lock.
    EmptyValue(&'static str),
    /// The key holds a control character, such as a line break.
    ControlCharacter(char),
    /// The key is longer than 1,024 bytes (the number says how long).
    TooLong(usize),
    /// The key ends with this suffix, which the helper keys of redlock use.
    ReservedSuffix(&'static str),
    /// The key holds a `}` but no `{tag}`: its helper keys could not share its hash slot.
    UnbalancedBrace,
    /// A `Display` implementation of a value returned an error.
    Display,
}

impl fmt::Display for InvalidKeyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the key is empty, so all callers would share one lock"),
            Self::EmptyValue(name) => write!(
                f,
                "`<{name}>` is empty, so all callers without a value would share one lock"
            ),
            Self::ControlCharacter(c) => {
                write!(f, "it contains the control character {c:?}; format the value without it")
            }
            Self::TooLong(length) => {
                write!(f, "it has {length} bytes, the limit is 1024; use an id or a hash instead")
            }
            Self::ReservedSuffix(suffix) => {
                write!(f, "it ends with `{suffix}`, which is reserved for helper keys")
            }
            Self::UnbalancedBrace => f.write_str(
                "it has a `}` without a `{tag}`, so helper keys cannot share its hash slot",
            ),
            Self::Display => f.write_str("the `Display` of a value in it returned an error"),
        }
    }
}

/// What went wrong on one Redis node.
///
/// ```
/// # async fn demo() {
/// let error = redlock::Redlock::connect("redis://127.0.0.1:1").await.unwrap_err();
/// let redlock::LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
/// assert_eq!(nodes[0].node(), "redis://127.0.0.1:1");
/// assert_eq!(nodes[0].kind(), redlock::NodeErrorKind::Unreachable);
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    node: String,
    kind: NodeErrorKind,
    message: String,
}

impl NodeError {
    pub(crate) fn new(node: &str, kind: NodeErrorKind, message: impl Into<String>) -> Self {
        Self { node: node.to_owned(), kind, message: message.into() }
    }

    /// The node's address, without credentials.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> NodeErrorKind {
        self.kind
    }

    /// What the node, or the operating system, said.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.node, self.message, self.kind.advice())
    }
}

impl std::error::Error for NodeError {}

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
    /// Connected, but no reply within `reply_timeout`.
    NoReply,
    /// The password or user name was refused, or one is needed.
    Authentication,
    /// The ACL of the user forbids a command or a key.
    NoPermission,
    /// The server is loading its data from disk.
    Loading,
    /// The server is busy with a script of somebody else.
    Busy,
    /// The server is out of memory.
    OutOfMemory,
    /// The server refuses writes because it cannot save its data.
    CannotPersist,
    /// The server refuses writes because too few replicas are connected.
    NoReplicas,
    /// The server is a read-only replica, or lost its master.
    ReadOnly,
    /// The key holds something that is not a lock.
    WrongType,
    /// The server belongs to a Redis Cluster, or the cluster is down.
    Cluster,
    /// The server has no room for another connection.
    TooManyClients,
    /// The reply made no sense.
    Protocol,
    /// Any other error reply.
    Refused,
}

impl NodeErrorKind {
    fn advice(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "is the server running, and the address right? start one with `redis-server`, or \
                 set REDIS_URL"
            }
            Self::NoReply => "the server is overloaded, frozen or cut off",
            Self::Authentication => {
                "put user and password into the URL: redis://user:password@host:6379"
            }
            Self::NoPermission => "grant the commands and keys of docs/security.md to this user",
            Self::Loading => "the server is starting; try again soon",
            Self::Busy => "a script blocks the server; see SCRIPT KILL",
            Self::OutOfMemory => "free memory or raise `maxmemory`; keep `noeviction`",
            Self::CannotPersist => "mend the disk of the server, its log says why it cannot save",
            Self::NoReplicas => "bring the replicas back, or lower `min-replicas-to-write`",
            Self::ReadOnly => "connect to the master",
            Self::WrongType => "another program uses this key; set a `prefix` of its own",
            Self::Cluster => "connect to a server outside of a cluster, or wait until it is up",
            Self::TooManyClients => "raise `maxclients`, or find who leaks connections",
            Self::Protocol => "is this a redis server?",
            Self::Refused => "the server's log may say more",
        }
    }
}

/// A duration as people read it: `1.234 s`, `87 ms`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        }
    }
}

struct HeldBy<'a>(Option<&'a str>);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |holder| write!(f, "; held by {holder}"))
    }
}

struct NodeList<'a>(&'a [NodeError]);

impl fmt::Display for NodeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{node}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds<T: std::error::Error + Send + Sync + Clone + 'static>() {}

    #[test]
    fn the_error_can_be_shared_cloned_and_boxed() {
        bounds::<LockError>();
        assert!(size_of::<LockError>() <= 80, "{}", size_of::<LockError>());
    }

    #[test]
    fn messages_name_the_key_the_reason_and_the_next_step() {
        let timeout = LockError::Timeout {
            key: "stock-42".into(),
            waited: Duration::from_millis(5_012),
            attempts: 31,
            holder: Some("web-3-4121:abc".into()),
        };
        assert_eq!(
            timeout.to_string(),
            "lock `stock-42` was not free within 5.0 s (31 attempts); held by web-3-4121:abc; \
             wait longer, or let the caller try again later"
        );
        let lost = LockError::Lost {
            key: "stock-42".into(),
            reason: LostReason::RenewalLimit,
            held_for: Duration::from_millis(900),
            renewals: 2,
        };
        assert_eq!(
            lost.to_string(),
            "lock `stock-42` was lost after 900 ms: all renewals were used up (2 renewals); \
             raise `max_renew` or `expire` if the work may take longer"
        );
    }
}
