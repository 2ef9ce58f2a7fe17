//! When this process should leave a hot lock to others. Pure.
//!
//! A release in this process wakes its own next waiter at once, while the waiters of other
//! processes ask now and then: left alone, one process would keep the lock for itself.

use std::time::Duration;

use crate::clock::Moment;

/// How long this process may pass the lock on among its own waiters, once others want it too.
const BUDGET: Duration = Duration::from_millis(10);
/// How long others are assumed to want it after one of them was seen holding it.
const MEMORY: Duration = Duration::from_secs(1);
/// The window left to others. They ask about once a millisecond while a lock moves.
pub(crate) const WINDOW: Duration = Duration::from_millis(2);

/// What is known of one key.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// When a holder outside of this process was last seen.
    remote_holder_at: Option<Moment>,
    /// Since when the lock has been passed on in this process.
    ours_since: Option<Moment>,
}

impl Fairness {
    /// Somebody else was seen holding the lock.
    pub(crate) fn remote_holder(&mut self, now: Moment) {
        self.remote_holder_at = Some(now);
        self.ours_since = None;
    }

    /// This process was granted the lock.
    pub(crate) fn granted(&mut self, now: Moment) {
        self.ours_since.get_or_insert(now);
    }

    /// Should the next attempt be put off by a [`WINDOW`]? Says so once for every budget used up.
    pub(crate) fn gives_way(&mut self, now: Moment) -> bool {
        let is_wanted = self.remote_holder_at.is_some_and(|at| now.since(at) < MEMORY);
        let is_used_up = self.ours_since.is_some_and(|since| now.since(since) >= BUDGET);
        if is_wanted && is_used_up {
            self.ours_since = None;
        }
        is_wanted && is_used_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_process_alone_keeps_the_lock() {
        let mut fairness = Fairness::default();
        fairness.granted(at(0));
        assert!(!fairness.gives_way(at(10_000)));
    }

    #[test]
    fn with_others_about_it_gives_way_once_a_budget() {
        let mut fairness = Fairness::default();
        fairness.remote_holder(at(0));
        fairness.granted(at(1));
        assert!(!fairness.gives_way(at(10)));
        assert!(fairness.gives_way(at(11)));
        assert!(!fairness.gives_way(at(12)));
        fairness.granted(at(13));
        assert!(fairness.gives_way(at(23)));
    }

    #[test]
    fn others_are_forgotten_after_a_while() {
        let mut fairness = Fairness::default();
        fairness.remote_holder(at(0));
        fairness.granted(at(1));
        assert!(!fairness.gives_way(at(1_000)));
    }
}
