//! Gives releases that were just handed to the keeper a moment to leave before a thread ends.
//!
//! A guard dropped as the last thing a program does (the end of `main`, a panic) would otherwise
//! race with the end of the process. The drop itself never blocks; the end of its thread does, for
//! at most [`LIMIT`], and only while a release has not been tried once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

static UNSENT: Count = Count::new();

/// How many releases have not been tried yet.
#[derive(Debug)]
struct Count {
    unsent: Mutex<usize>,
    tried: Condvar,
}

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
}

struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        // The limit is not a failure: the lease ends by itself.
        UNSENT.all_are_tried();
    }
}

/// A release that has not been tried yet.
#[derive(Debug)]
pub(super) struct Unsent(&'static Count);

impl Unsent {
    /// Called on the thread that lets go.
    pub(super) fn here() -> Self {
        // An error means that this thread is ending already.
        let _ = AT_THREAD_END.try_with(|_| ());
        UNSENT.one_more()
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        *self.0.unsent() -= 1;
        self.0.tried.notify_all();
    }
}

impl Count {
    const fn new() -> Self {
        Self { unsent: Mutex::new(0), tried: Condvar::new() }
    }

    fn one_more(&'static self) -> Unsent {
        *self.unsent() += 1;
        Unsent(self)
    }

    /// Waits until that is so. `false`: the limit came first.
    fn all_are_tried(&self) -> bool {
        let waited = self.tried.wait_timeout_while(self.unsent(), LIMIT, |unsent| *unsent > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn unsent(&self) -> MutexGuard<'_, usize> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn only_a_release_that_was_not_tried_is_waited_for() {
        static COUNT: Count = Count::new();
        assert!(COUNT.all_are_tried());
        let (first, second) = (COUNT.one_more(), COUNT.one_more());
        drop(first);
        assert!(!COUNT.all_are_tried());
        drop(second);
        assert!(COUNT.all_are_tried());
    }
}
