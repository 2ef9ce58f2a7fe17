//! Why a task cannot re-enter a lock that it holds.

use std::fmt;

/// Why a call cannot run inside of the hold that its task has: it would wait for itself.
///
/// ```
/// use redlock::{AlreadyHeldReason, LockError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let reading = redlock.lock("config").read().run(async {
///     redlock.lock("config").run(async { /* write it */ }).await
/// });
/// let Err(LockError::AlreadyHeld { reason, .. }) = reading.await? else { unreachable!() };
/// assert_eq!(reason, AlreadyHeldReason::Stronger);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlreadyHeldReason {
    /// The call was made with `reentrant = false`.
    NotReentrant,
    /// The call wants a stronger form of the lock than its task holds: to write inside of a
    /// [read lock](crate::LockRequest::read), or to be one of fewer holders of
    /// [permits](crate::LockRequest::permits).
    Stronger,
    /// One of the two is a permit, and the other is none.
    OtherKind,
    /// The call wants several keys ([`lock_all`](crate::Redlock::lock_all)), of which no single
    /// hold of the task has all.
    SeveralKeys,
    /// The call wants to [lead](crate::LockRequest::lead), which needs a lock of its own.
    Leads,
    /// The guard re-entered the lock of an outer call, which alone can be downgraded.
    OuterHolds,
}

impl fmt::Display for AlreadyHeldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReentrant => {
                "`reentrant = false` forbids to re-enter it; take it once, further out, or leave \
                 that option out"
            }
            Self::Stronger => {
                "the inner call wants a stronger form of it; take it once, further out, in its \
                 strongest form: the write lock before the read lock (`downgrade` makes one of \
                 it), the smaller number of permits before the larger"
            }
            Self::OtherKind => {
                "a permit and a plain or read lock of one key exclude each other; use two keys"
            }
            Self::SeveralKeys => {
                "several keys are re-entered only where one call holds all of them, and taking a \
                 part of them later could be a deadlock; take all of them together further out \
                 (`lock_all`), or release this one before"
            }
            Self::Leads => "a leader needs the lock for itself; call `lead` outside of that hold",
            Self::OuterHolds => {
                "the outer call has the write lock; downgrade the guard of that call"
            }
        })
    }
}
