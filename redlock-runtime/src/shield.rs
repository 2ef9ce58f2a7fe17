//! Calls of foreign code: wakers, subscribers of events, recorders of metrics.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code, and catches its panic. The panic would end the background thread's work for
/// every other caller, or, in a drop during another panic, the process. `None`: it panicked.
pub(crate) fn shielded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let thrown = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => return Some(value),
        Err(thrown) => thrown,
    };
    // What was thrown is foreign, too: its drop may panic.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
        mem::forget(again);
    }
    None
}

/// An event of `tracing`, as in `tell!(debug, key, "lock released")`. A subscriber that panics does
/// no harm to the lock.
macro_rules! tell {
    ($level:ident, $($event:tt)*) => {{
        let _ = $crate::shield::shielded(|| tracing::$level!($($event)*));
    }};
}

pub(crate) use tell;

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// Throws another one when it is dropped, this many times.
    struct Thrown(u32);

    impl Drop for Thrown {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Self(self.0 - 1));
            }
        }
    }

    #[test]
    fn what_was_thrown_may_panic_when_it_is_dropped() {
        assert_eq!(shielded(|| panic_any(Thrown(1))), None::<()>);
        assert_eq!(shielded(|| 1), Some(1));
    }
}
