//! The error of every call.

use std::fmt;
use std::time::Duration;

use super::show::{HeldBy, NodeList, On, Seconds};
use super::{InvalidKeyReason, NodeError};
use crate::state::LostReason;

/// Why a lock could not be taken, kept or released.
///
/// Busy ([`Timeout`](Self::Timeout)), lost ([`Lost`](Self::Lost)) and unreachable
/// ([`Unavailable`](Self::Unavailable)) are three different answers, because a caller does three
/// different things: try later, compensate, raise the alarm.
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
/// `Debug` writes the message as `Display` does, since that is what `unwrap` and
/// `fn main() -> Result<(), LockError>` print.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
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
    Config {
        /// What is wrong and what to write instead.
        message: String,
    },

    /// The key cannot name a lock.
    #[error("invalid lock key {key:?}: {reason}")]
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
    #[error("redis is unavailable{}: {}", On(.key), NodeList(.nodes, .key))]
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
    TooManyWaiters {
        /// The key, without the client's prefix.
        key: String,
    },

    /// The task holds this lock already and asked not to re-enter it (`reentrant = false`).
    #[error(
        "lock `{key}` is already held by this task; waiting for it would be a deadlock. Allow \
         re-entry, or take the lock once further out"
    )]
    AlreadyHeld {
        /// The key, without the client's prefix.
        key: String,
    },

    /// The task holds this lock already, and another call inside of that hold was not done within
    /// `wait`: calls that re-enter a hold take turns.
    #[error(
        "lock `{key}` is held by this task, and another call inside of that hold was not done \
         within {}: is it still polled, or does it wait for this one? Calls below a guard that \
         re-entered belong into its `protect`",
        Seconds(*.waited)
    )]
    TurnTaken {
        /// The key, without the client's prefix.
        key: String,
        /// How long the call waited for its turn.
        waited: Duration,
    },

    /// A lease handle was used after its lock had been released.
    #[error("lock `{key}` was released; this lease handle outlived its lock")]
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
    ExpireTooShort {
        /// The key, without the client's prefix.
        key: String,
        /// How long the last attempt took.
        took: Duration,
        /// The lease that was asked for.
        expire: Duration,
    },

    /// The client or the lock belongs to the process from which this one was forked. The parent
    /// has it still; the child makes a client of its own, and may call [`init`](crate::init) again.
    #[error(
        "this process was forked from the one that made this redlock client, where its connections \
         and its locks stay; call `redlock::init` again in the child, or build another client"
    )]
    ForkedProcess,

    /// The background thread could not be started, or died during the call.
    #[error("the background thread of redlock failed: {message}")]
    Keeper {
        /// What the operating system said.
        message: String,
    },
}

impl LockError {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config { message: message.into() }
    }

    /// What happened, for somebody outside of the service: without addresses of servers, host names
    /// and process ids, which the whole message has.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder().url("redis://10.0.0.7:1").lazy().build().await?;
    /// let error = redlock.lock("stock-42").try_acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("10.0.0.7"));
    /// assert_eq!(error.public_message(), "lock `stock-42` is unavailable at the moment");
    /// # Ok(()) }
    /// ```
    pub fn public_message(&self) -> String {
        match self {
            Self::Timeout { key, .. } => format!("lock `{key}` is busy; try again later"),
            Self::Lost { key, .. } => format!("lock `{key}` was lost, and the work was stopped"),
            Self::Unavailable { key, .. } if !key.is_empty() => {
                format!("lock `{key}` is unavailable at the moment")
            }
            Self::TooManyWaiters { key } => {
                format!("too many calls wait for locks such as `{key}`")
            }
            Self::InvalidKey { .. }
            | Self::AlreadyHeld { .. }
            | Self::TurnTaken { .. }
            | Self::NotHeld { .. }
            | Self::ExpireTooShort { .. } => self.to_string(),
            Self::Unavailable { .. }
            | Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::Config { .. }
            | Self::ForkedProcess
            | Self::Keeper { .. } => "locks are unavailable".to_owned(),
        }
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
            | Self::TurnTaken { key, .. }
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

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
        LostReason::Forked => "a child of a fork takes locks of its own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NodeErrorKind;

    fn bounds<T: std::error::Error + Send + Sync + Clone + 'static>() {}

    #[test]
    fn the_error_can_be_shared_cloned_and_boxed() {
        bounds::<LockError>();
        assert!(size_of::<LockError>() <= 80, "{}", size_of::<LockError>());
    }

    #[test]
    fn main_prints_the_message() {
        let node = NodeError::new("redis://db:1", NodeErrorKind::Unreachable, "refused");
        let at_startup = LockError::Unavailable { key: String::new(), nodes: vec![node.clone()] };
        let seen = format!("Error: {at_startup:?}");
        assert!(seen.starts_with("Error: redis is unavailable: redis://db:1: refused"), "{seen}");
        assert!(seen.contains("start one with `redis-server`"), "{seen}");
        let later = LockError::Unavailable { key: "stock-42".into(), nodes: vec![node] };
        assert!(!later.to_string().contains("redis-server"), "{later}");
    }

    #[test]
    fn messages_name_the_key_the_reason_and_the_next_step() {
        let busy = LockError::Timeout {
            key: "stock-42".into(),
            waited: Duration::from_millis(5_012),
            attempts: 31,
            holder: Some("web-3-4121:abc".into()),
        };
        assert_eq!(
            busy.to_string(),
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
            "lock `stock-42` was lost after 900 ms: the lease ran out, and no renewals are left (2 \
             renewals); \
             raise `max_renew` or `expire` if the work may take longer"
        );
    }
}
