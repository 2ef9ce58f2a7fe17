//! Who hears in this process that a lock was lost.

use std::fmt;

/// Hears that a hold ended which nobody let go of: waiters of this process may have the lock.
pub(crate) trait LossListener: fmt::Debug + Send + Sync {
    fn lock_lost(&self);
}
