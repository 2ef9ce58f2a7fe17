//! When the lock stood idle: somebody waited for it, and nobody was in a body.

use crate::plan::Arrival;

/// What a waiter may not notice on one server, ns.
const LONG_NS: u64 = 10_000_000;

#[derive(Debug, PartialEq, Eq)]
pub struct Idle {
    pub longest_ns: u64,
    /// How many were longer than 10 ms.
    pub long: u64,
}

/// Of the logs of all processes. Whoever was not served has waited until `gives_up`; whoever was
/// dropped has not waited.
pub fn idle(arrivals: &[Arrival], gives_up: u64) -> Idle {
    // Moment, change of those who wait, change of those who are in a body.
    let mut events = Vec::new();
    for &[scheduled, called, began, ended] in arrivals {
        if called == 0 {
            continue;
        }
        events.push((scheduled, 1, 0));
        events.push((if began == 0 { gives_up } else { began }, -1, i32::from(began > 0)));
        if began > 0 {
            events.push((if ended == 0 { gives_up.max(began) } else { ended }, 0, -1));
        }
    }
    // Of one moment, ends come last: what ends and begins at once is not idle between.
    events.sort_unstable_by_key(|&(moment, _, bodies)| (moment, -bodies));
    let mut idle = Idle { longest_ns: 0, long: 0 };
    let (mut waiters, mut bodies, mut since) = (0, 0, None);
    for (moment, more_waiters, more_bodies) in events {
        waiters += more_waiters;
        bodies += more_bodies;
        let is_idle = waiters > 0 && bodies == 0;
        if is_idle {
            since.get_or_insert(moment);
        } else if let Some(since) = since.take() {
            let length = moment - since;
            idle.longest_ns = idle.longest_ns.max(length);
            idle.long += u64::from(length > LONG_NS);
        }
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(arrivals: &[Arrival]) -> (u64, u64) {
        let arrivals: Vec<_> = arrivals.iter().map(|one| one.map(|moment| moment * MS)).collect();
        let idle = idle(&arrivals, 100 * MS);
        (idle.longest_ns / MS, idle.long)
    }

    #[test]
    fn a_lock_that_nobody_waits_for_is_not_idle() {
        assert_eq!(of(&[[1, 1, 1, 5], [50, 50, 51, 60]]), (1, 0));
    }

    #[test]
    fn from_the_end_of_a_body_until_the_next_one_begins_it_is() {
        assert_eq!(of(&[[1, 1, 1, 5], [2, 2, 25, 30], [3, 3, 32, 40]]), (20, 1));
    }

    #[test]
    fn who_was_not_served_waits_to_the_end_and_who_was_dropped_not_at_all() {
        assert_eq!(of(&[[1, 1, 1, 5], [10, 10, 0, 0]]), (90, 1));
        assert_eq!(of(&[[1, 1, 1, 5], [10, 0, 0, 0]]), (0, 0));
    }

    #[test]
    fn a_body_that_others_wait_for_is_no_idle_time() {
        assert_eq!(of(&[[1, 1, 1, 60], [2, 2, 60, 61]]), (0, 0));
    }
}
