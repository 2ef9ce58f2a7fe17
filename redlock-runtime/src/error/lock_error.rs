//! `LockError`: the error of every call.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use super::already_held::AlreadyHeldReason;
use super::invalid_key::InvalidKeyReason;
use super::node_error::{NodeError, NodeErrorKind};
use crate::state::LostReason;

/// Why a lock could not be taken, kept or released.
///
/// Busy ([`Timeout`](Self::Timeout)), lost ([`Lost`](Self::Lost)) and unreachable
/// ([`Unavailable`](Self::Unavailable)) are three different answers, because a caller does three
/// different things: try later, compensate, raise the alarm. `docs/errors.md` has a table of all.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// use redlock::{LockError, Wait};
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let _held = redlock.lock("stock-42").acquire().await?;
/// match redlock.lock("stock-42").wait(Wait::Never).acquire().await {
///     Err(LockError::Timeout { key, holder, .. }) => println!("{key} is held by {holder:?}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
///
/// [`source`](std::error::Error::source) of an `Unavailable` is what the first node said, and the
/// source of that the error of the Redis client, where there is one.
///
/// `Debug` writes the message as `Display` does, since that is what `unwrap` and
/// `fn main() -> Result<(), LockError>` print.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// A function with `#[redis_lock]` was called before [`init`](crate::init).
    NotInitialized,

    /// [`init`](crate::init) or [`install`](crate::Redlock::install) was called a second time.
    AlreadyInitialized,

    /// An option, a URL or the server's configuration cannot work.
    #[non_exhaustive]
    Config {
        /// What is wrong and what to write instead.
        message: String,
    },

    /// The key cannot name a lock.
    #[non_exhaustive]
    InvalidKey {
        /// The key as far as it was rendered, cut to 80 characters.
        key: String,
        /// What is wrong with it.
        reason: InvalidKeyReason,
    },

    /// Another owner held the lock for the whole `wait`, or somebody else came first.
    #[non_exhaustive]
    Timeout {
        /// The key, without the client's prefix.
        key: String,
        /// How long the call waited.
        waited: Duration,
        /// How many attempts were made.
        attempts: u32,
        /// The owner that held the lock when it was last observed; of a shared kind what the
        /// holders are: `3 readers`, `2 permits`; without a number (`readers`) where nobody counted
        /// them, as for a plain lock that does not wait. Of N masters the value on one of them,
        /// whose last six digits may be others than those of
        /// [`Lease::owner`](crate::Lease::owner). What another program has written is cut to 300
        /// characters; the message escapes control characters in it. `None`: it is not known, or
        /// nobody held the lock then, and a waiter comes before this call.
        holder: Option<String>,
        /// That owner is of the client that waited: another call, or a guard, of this process. If
        /// it waits for this call, neither of them goes on.
        is_own: bool,
        /// How long the holder's lease would last on from now, unless it is renewed: as the last
        /// answer had it, less the time since. Of several readers the last lease, of several
        /// permits usually the first. `None`: it is not known, or over.
        remaining: Option<Duration>,
        /// The key had no expiry when it was last observed, and does not end by itself: another
        /// program has set it, or has taken its expiry away.
        is_endless: bool,
        /// Where the call stood in the wait queue when the server last told: 1 is the next one. A
        /// process before it counts once, however many of its calls wait. `None`: it is not known,
        /// as for calls that did not wait, and where servers keep no queue (several masters, the
        /// restart guard, `min_replicas`, `memory`).
        position: Option<NonZeroU32>,
        /// Readers had the lock, and the call was to be one more: another call came first and
        /// waits that cannot share the lock with them, such as a writer.
        is_kept_out: bool,
        /// The keys of the locks that the task of the call held meanwhile, the one taken last
        /// first: inside of locked bodies. The holder may be waiting for one of them. With `key`
        /// among them, the task itself has a lock of this key with another client, which is not
        /// re-entered. Boxed, to keep the error small.
        while_holding: Box<Vec<String>>,
    },

    /// The lease ended while the body ran, and the body was stopped. Or a call began inside of a
    /// hold that had ended, or a lease handle was used after that: the reason is
    /// [`LostReason::Released`] where the lock had been released.
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

    /// Redis could not be reached: nothing is known about the lock. Or it has lost one of several
    /// keys while others were waited for. Or, with several servers, callers took each other's
    /// votes again and again, and none of them was seen to get the lock. Or the lock was granted
    /// more than once to a call whose task was polled too late, and was taken back each time: find
    /// what keeps the thread of that task busy.
    #[non_exhaustive]
    Unavailable {
        /// The key, without the client's prefix; empty while a client starts up.
        key: String,
        /// What each node said.
        nodes: Vec<NodeError>,
    },

    /// `max_waiters` calls of this client wait for locks already.
    #[non_exhaustive]
    TooManyWaiters {
        /// The key, without the client's prefix.
        key: String,
    },

    /// [`Redlock::shutdown`](crate::Redlock::shutdown) or [`drain`](crate::Redlock::drain) was
    /// called while the call waited for the lock, or before it had begun to. Calls inside of a hold
    /// of the client are served meanwhile.
    #[non_exhaustive]
    ShuttingDown {
        /// The key, without the client's prefix.
        key: String,
    },

    /// The task holds this lock already, cannot re-enter it, and would wait for itself.
    #[non_exhaustive]
    AlreadyHeld {
        /// The key, without the client's prefix.
        key: String,
        /// Why the task cannot re-enter it.
        reason: AlreadyHeldReason,
        /// The other keys of the call; empty if it wanted this one only.
        with: Vec<String>,
    },

    /// The task holds this lock already, and another call inside of that hold was not done within
    /// `wait`: calls that re-enter a hold take turns.
    #[non_exhaustive]
    TurnTaken {
        /// The key, without the client's prefix.
        key: String,
        /// How long the call waited for its turn.
        waited: Duration,
    },

    /// Redis granted the lock, but so late that the lease was nearly over; it was given back. The
    /// answer took that long, or the task of the call was not polled meanwhile: choose a longer
    /// `expire`, or find what keeps the thread of that task busy.
    #[non_exhaustive]
    ExpireTooShort {
        /// The key, without the client's prefix.
        key: String,
        /// How long the last attempt took.
        took: Duration,
        /// The requested lease.
        expire: Duration,
    },

    /// A function that blocks its thread was called in a task of tokio, whose thread runs other
    /// tasks as well.
    #[non_exhaustive]
    InTask {
        /// The key, without the client's prefix.
        key: String,
    },

    /// The client or the lock belongs to the process from which this one was forked. The parent
    /// has it still; the child makes a client of its own, and may call [`init`](crate::init) again.
    ForkedProcess,

    /// The operating system did not let the background thread start: a person has to raise its
    /// limits. Or the thread died during the call: the next call starts another one.
    #[non_exhaustive]
    BackgroundThread {
        /// What the operating system said.
        message: String,
    },
}

impl LockError {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config { message: message.into() }
    }

    /// The call wanted this key only.
    pub(crate) fn already_held(key: &str, reason: AlreadyHeldReason) -> Self {
        Self::AlreadyHeld { key: key.to_owned(), reason, with: Vec::new() }
    }

    /// A mistake in the options of a call says which lock it is about.
    pub(crate) fn about(self, lock: &str) -> Self {
        match self {
            Self::Config { message } if !lock.is_empty() => {
                Self::Config { message: format!("lock `{lock}`: {message}") }
            }
            other => other,
        }
    }

    /// The key that the failure is about, without the client's prefix; `None` where it is about no
    /// key.
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
            | Self::ShuttingDown { key }
            | Self::AlreadyHeld { key, .. }
            | Self::InTask { key }
            | Self::TurnTaken { key, .. }
            | Self::ExpireTooShort { key, .. } => Some(key.as_str()).filter(|key| !key.is_empty()),
            Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::Config { .. }
            | Self::ForkedProcess
            | Self::BackgroundThread { .. } => None,
        }
    }

    /// Is the lock taken? Nothing was done; the same call may succeed later. In a web service: 409
    /// ([`http_status`](Self::http_status)).
    ///
    /// True for [`Timeout`](Self::Timeout) and [`TurnTaken`](Self::TurnTaken), and for
    /// [`AlreadyHeld`](Self::AlreadyHeld), where the task itself has it: a mistake in the program,
    /// which no later try mends ([`is_caller_error`](Self::is_caller_error)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let _held = redlock.lock("stock-42").acquire().await?;
    /// let request = redlock.lock("stock-42").wait(redlock::Wait::Never);
    /// let error = request.acquire().await.unwrap_err();
    /// assert!(error.is_busy() && !error.is_unavailable() && !error.is_lost());
    /// # Ok(()) }
    /// ```
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::TurnTaken { .. } | Self::AlreadyHeld { .. })
    }

    /// Was it impossible to ask for the lock at the moment? Nothing was done. In a web service:
    /// 503.
    ///
    /// True for [`Unavailable`](Self::Unavailable), [`TooManyWaiters`](Self::TooManyWaiters),
    /// [`ShuttingDown`](Self::ShuttingDown), [`ExpireTooShort`](Self::ExpireTooShort) and
    /// [`BackgroundThread`](Self::BackgroundThread).
    /// A *release* that fails with `Unavailable` comes after the work, of course.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = redlock::Redlock::connect("redis://127.0.0.1:1").await.unwrap_err();
    /// assert!(error.is_unavailable());
    /// # }
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::TooManyWaiters { .. }
                | Self::ShuttingDown { .. }
                | Self::ExpireTooShort { .. }
                | Self::BackgroundThread { .. }
        )
    }

    /// Was the lock lost while the work was under way? Part of the work may have been done: check,
    /// or compensate, before it is done again.
    ///
    /// True for [`Lost`](Self::Lost), unless the lock had been released.
    ///
    /// ```
    /// use redlock::LockError;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let request = redlock.lock("stock-42").expire(std::time::Duration::from_millis(50));
    /// let endless = request.max_renew(0).run(std::future::pending::<()>());
    /// assert!(endless.await.unwrap_err().is_lost());
    /// # Ok(()) }
    /// ```
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { reason, .. } if *reason != LostReason::Released)
    }

    /// When it makes sense to call again, for a `Retry-After` header. Where the lock was busy:
    /// after as long as the call had waited, at least a second and at most thirty. Where Redis
    /// could not be reached, too many waited, or the client shuts down: after a second. `None`
    /// where time alone does not help, as with a lock whose key has no expiry, or where a part of
    /// the work may have been done.
    ///
    /// Of an [`Unavailable`](Self::Unavailable) it is `None` where each of the nodes needs a change
    /// by a person, which these kinds say: [`Tls`](NodeErrorKind::Tls),
    /// [`Authentication`](NodeErrorKind::Authentication),
    /// [`NoPermission`](NodeErrorKind::NoPermission), [`WrongType`](NodeErrorKind::WrongType),
    /// [`Duplicate`](NodeErrorKind::Duplicate), [`OtherClock`](NodeErrorKind::OtherClock) and
    /// [`Sentinel`](NodeErrorKind::Sentinel); or a server has no fencing token left (its error
    /// begins with `FENCE`). Others may need one, too, but may also pass: memory that others free,
    /// an error of a proxy.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let _held = redlock.lock("stock-42").acquire().await?;
    /// let request = redlock.lock("stock-42").wait(redlock::Wait::Never);
    /// let error = request.acquire().await.unwrap_err();
    /// assert_eq!(error.retry_after(), Some(std::time::Duration::from_secs(1)));
    /// # Ok(()) }
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        const SHORTEST: Duration = Duration::from_secs(1);
        const LONGEST: Duration = Duration::from_secs(30);
        match self {
            Self::Timeout { is_endless: false, waited, .. } | Self::TurnTaken { waited, .. } => {
                Some((*waited).clamp(SHORTEST, LONGEST))
            }
            Self::Unavailable { nodes, .. } if nodes.iter().all(is_for_good) => None,
            Self::Unavailable { .. } | Self::TooManyWaiters { .. } | Self::ShuttingDown { .. } => {
                Some(SHORTEST)
            }
            Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::Config { .. }
            | Self::InvalidKey { .. }
            | Self::Timeout { .. }
            | Self::Lost { .. }
            | Self::AlreadyHeld { .. }
            | Self::InTask { .. }
            | Self::ExpireTooShort { .. }
            | Self::ForkedProcess
            | Self::BackgroundThread { .. } => None,
        }
    }
}

/// Does this node need a change by a person before it works? Further kinds end a call before its
/// wait is over (`NodeErrorKind::is_final`), as they last for longer; they may pass by themselves.
fn is_for_good(error: &NodeError) -> bool {
    matches!(
        error.kind(),
        NodeErrorKind::Tls
            | NodeErrorKind::Authentication
            | NodeErrorKind::NoPermission
            | NodeErrorKind::WrongType
            | NodeErrorKind::Duplicate
            | NodeErrorKind::OtherClock
            | NodeErrorKind::Sentinel
    ) || error.has_no_fencing_token()
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable { nodes, .. } => nodes.first().map(|node| node as _),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
