//! Gives releases that were just handed to the keeper a moment to leave before a thread ends.
//!
//! A guard dropped as the last thing a program does (the end of `main`, a panic) would otherwise
//! race with the end of the process. The drop itself never blocks; the end of its thread does, for
//! at most [`LIMIT`], and only while a release has not been tried once.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

static UNSENT: Mutex<usize> = Mutex::new(0);
static SENT: Condvar = Condvar::new();

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
}

struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let unsent = UNSENT.lock().unwrap_or_else(PoisonError::into_inner);
        // A timeout is not a failure: the lease ends by itself.
        drop(SENT.wait_timeout_while(unsent, LIMIT, |unsent| *unsent > 0));
    }
}

/// A release that has not been tried yet.
#[derive(Debug)]
pub(super) struct Unsent(());

impl Unsent {
    /// Called on the thread that lets go.
    pub(super) fn here() -> Self {
        // An error means that this thread is ending already.
        let _ = AT_THREAD_END.try_with(|_| ());
        *UNSENT.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        *UNSENT.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        SENT.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_that_let_go_ends_after_its_release_was_tried_or_the_limit() {
        let start = Instant::now();
        // Given away, and not tried for as long as the thread lives.
        let thread = std::thread::spawn(Unsent::here);
        let unsent = thread.join().unwrap();
        assert!(start.elapsed() >= LIMIT);
        drop(unsent);
    }
}
