//! What the look of the scheduler at a lease comes to.

use crate::clock::Moment;

/// What the scheduler should do about a lease now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Renew,
    /// Its caller has not taken it in time: it was taken back, and is to be released.
    Withdraw,
    /// Nothing before this moment.
    Sleep(Moment),
    /// It is over; there is nothing left to do.
    Forget,
}
