//! The states of a lease, and how it can end.

use std::fmt;

/// The state of a lease, as its holder may rely on it.
///
/// ```
/// use redlock::LeaseState;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let guard = redlock.lock("stock-42").acquire().await?;
/// assert_eq!(guard.state(), LeaseState::Held);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// The last acquire or renewal was confirmed and its deadline lies ahead.
    Held,
    /// A renewal failed or went unanswered. The lease still holds until its deadline; it becomes
    /// [`Held`](Self::Held) again when a retry is confirmed in time, else [`Lost`](Self::Lost).
    Uncertain,
    /// The lease is over: lost, used up or released. It never comes back.
    Lost,
}

/// Why a lease ended.
///
/// ```
/// assert_eq!(redlock::LostReason::Stolen.to_string(), "another owner holds the key");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// All `max_renew` renewals were used and the last lease ran out.
    RenewalLimit,
    /// The key was gone, or the lease ran out before it could be renewed (a frozen process).
    Expired,
    /// The key has another owner.
    Stolen,
    /// No renewal was confirmed before the lease ran out: Redis did not answer, or refused.
    Unreachable,
    /// This process was forked from the one that holds the lock, which goes on holding it.
    Forked,
    /// Its holder released it: nothing was lost.
    Released,
    /// Its holder, a call around this one, released it while this one was in the middle of its
    /// body, which was stopped.
    OuterReleased,
}

impl LostReason {
    /// What to do about it.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::RenewalLimit => "raise `max_renew` or `expire` if the work may take longer",
            Self::Expired => {
                "the process was frozen, somebody deleted the key (`redlock release --force`, \
                 `DEL`, `FLUSHALL`), the server lost its data, its clock was set forward, or that \
                 of a replica that took over is ahead"
            }
            Self::Stolen => "another owner took the key over; fencing tokens tell the two apart",
            Self::Unreachable => {
                "check the connection to redis (the event `lease uncertain`, at DEBUG, says what \
                 was wrong), or choose a longer `expire`"
            }
            Self::Released => "the holder released it",
            Self::OuterReleased => {
                "a call inside of a hold, also one that was spawned with `Lease::scope`, has to \
                 end before the call around it does"
            }
            Self::Forked => "a child of a fork takes locks of its own",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RenewalLimit => "the lease ran out, and no renewals are left",
            Self::Expired => "the lease is over, or its key is gone",
            Self::Stolen => "another owner holds the key",
            Self::Unreachable => "no renewal was confirmed in time",
            Self::Forked => "the process that holds it was forked",
            Self::Released => "it was released",
            Self::OuterReleased => "the call around this one released it",
        })
    }
}

/// What a release found in Redis.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let guard = redlock.lock("stock-42").acquire().await?;
/// assert_eq!(guard.release().await?, redlock::Released::Released);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was ours to the end. It is free, or the next waiter has it, or it stays taken until
    /// its `min_hold` is over. Of a guard that re-entered: the outer hold was not lost, and may go
    /// on.
    Released,
    /// The key was gone already: the lease had run out, or the server lost the key.
    Expired,
    /// The key belonged to another owner, and was left alone.
    Stolen,
    /// This owner no longer holds the lock, and it is unknown since when. Either the release was
    /// sent twice because the connection broke under it, and only the second one was answered: most
    /// likely the first one freed the lock, or handed it to the next waiter. Or the lease held when
    /// its holder let go of it, and the answer took until after its end: most likely it has run
    /// out meanwhile.
    Unknown,
}
