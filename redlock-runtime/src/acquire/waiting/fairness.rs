//! When this process should leave a contended lock to other processes, where these make attempts
//! and stand in no queue of a server (`by_attempts.rs`). Pure.
//!
//! A release in this process wakes its own next waiter at once, while the pollers of other
//! processes make attempts from time to time: without this limit, one process would keep the lock
//! for itself.

use std::time::Duration;

use crate::clock::Moment;

/// How long this process may pass the lock on among its own waiters once other processes want it.
const BUDGET: Duration = Duration::from_millis(10);
/// When a process was observed holding the lock, other processes count as wanting it for so long.
const MEMORY: Duration = Duration::from_secs(1);
/// For how long this process makes no attempt, so that others have the lock. While a lock goes from
/// one process to the next, each of them makes about one attempt a millisecond.
pub(crate) const WINDOW: Duration = Duration::from_millis(2);

/// What is known about one key.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// When a holder outside of this process was last observed.
    remote_holder_at: Option<Moment>,
    /// Since when this process has had the lock, and may pass it on.
    ours_since: Option<Moment>,
}

impl Fairness {
    /// A holder outside of this process was observed.
    pub(crate) fn remote_holder(&mut self, now: Moment) {
        self.remote_holder_at = Some(now);
        self.ours_since = None;
    }

    /// This process was granted the lock.
    pub(crate) fn granted(&mut self, now: Moment) {
        self.ours_since.get_or_insert(now);
    }

    /// Does the next attempt have to wait for a [`WINDOW`]? Then a new budget begins.
    pub(crate) fn give_way_if_due(&mut self, now: Moment) -> bool {
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
        assert!(!fairness.give_way_if_due(at(10_000)));
    }

    #[test]
    fn while_others_want_it_a_process_gives_way_once_in_each_budget() {
        let mut fairness = Fairness::default();
        fairness.remote_holder(at(0));
        fairness.granted(at(1));
        assert!(!fairness.give_way_if_due(at(10)));
        assert!(fairness.give_way_if_due(at(11)));
        assert!(!fairness.give_way_if_due(at(12)));
        fairness.granted(at(13));
        assert!(fairness.give_way_if_due(at(23)));
    }

    #[test]
    fn others_are_forgotten_after_a_while() {
        let mut fairness = Fairness::default();
        fairness.remote_holder(at(0));
        fairness.granted(at(1));
        assert!(!fairness.give_way_if_due(at(1_000)));
    }
}
