//! Calls of foreign code: wakers, subscribers of events, recorders of metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code, and catches its panic. The panic would end the background thread's work for
/// every other caller, or, in a drop during another panic, the process. `None`: it panicked.
pub(crate) fn shielded<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// An event of `tracing`, as in `tell!(debug, key, "lock released")`. A subscriber that panics does
/// no harm to the lock.
macro_rules! tell {
    ($level:ident, $($event:tt)*) => {{
        let _ = $crate::shield::shielded(|| tracing::$level!($($event)*));
    }};
}

pub(crate) use tell;
