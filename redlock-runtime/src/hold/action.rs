//! What the scheduler does about a lease after a check.

use crate::clock::Moment;

/// What the scheduler should do about a lease now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Renew,
    /// The caller has not taken the lock in time: it was taken back, and has to be released.
    Withdraw,
    /// Nothing is due before this moment.
    Sleep(Moment),
    /// The lease is over; there is nothing left to do.
    Forget,
}
