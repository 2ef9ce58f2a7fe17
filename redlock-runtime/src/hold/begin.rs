//! How a hold begins.

use crate::clock::Moment;

/// How a hold begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    pub(crate) at: Moment,
    /// The caller is being polled. Otherwise it learns of the lock later, or never.
    pub(crate) is_taken: bool,
}
