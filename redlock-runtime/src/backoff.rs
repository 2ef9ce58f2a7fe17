//! How long to pause between two attempts. Pure; the random numbers come from the caller.

use std::time::Duration;

/// Attempts made at once, before the first pause: most locks are held for microseconds.
const SPINS: u32 = 3;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);
/// The longest time between two checks by the first process of the queue.
const FALLBACK: Duration = Duration::from_secs(1);
/// How much later than the entry before it each entry of the queue is checked.
const APART: Duration = Duration::from_millis(50);
/// The longest pause of a queued process; behind a lease that ends meanwhile it checks this much
/// later again.
const SLOWEST: Duration = Duration::from_secs(10);
/// The pause while the holder is in this process. Its release and its loss wake the waiter; the
/// pause is for a lock that ended without an event, for example because its key was deleted.
pub(crate) const HOLDER_HERE: Duration = Duration::from_secs(1);
/// The same without a queue on the server: other processes may acquire the lock at any time.
pub(crate) const HOLDER_HERE_WITHOUT_QUEUE: Duration = Duration::from_millis(100);

/// The pause before attempt `attempts + 1` for a lock that another owner holds.
///
/// The pause grows with the observed age of the present hold: a lock that moves gets many attempts,
/// a lock that stays costs the server little, and the delay is a small part of the hold. The pause
/// ends when the holder's lease does. `random` is in `0.0..1.0`: half of the pause is jitter, so
/// that waiters do not move in step.
pub(crate) fn busy(
    attempts: u32,
    hold_age: Duration,
    free_in: Option<Duration>,
    random: f64,
) -> Duration {
    if attempts < SPINS {
        return Duration::ZERO;
    }
    let full = (hold_age / 16).clamp(SHORTEST, LONGEST);
    let pause = full.mul_f64(0.5 + random / 2.0);
    match free_in {
        Some(free_in) => pause.min(free_in + SHORTEST),
        None => pause,
    }
}

/// The shortest pause of a poller whose client has this many pollers: together they make some
/// thousands of attempts a second at most, as they share one thread with the client's renewals.
pub(crate) fn crowded(pollers: usize, random: f64) -> Duration {
    const MANY: usize = 100;
    const EACH: Duration = Duration::from_micros(200);
    let above = u32::try_from(pollers.saturating_sub(MANY)).unwrap_or(u32::MAX);
    EACH.saturating_mul(above).mul_f64(0.5 + random / 2.0)
}

/// When to check an entry in the queue if no signal comes: when the holder's lease ends, in case
/// the holder crashed, and later for entries further back. As a signal may also be lost, not much
/// later.
///
/// The first process that checks after the end of the lease gets the lock: processes before it in
/// the queue check a little earlier, so they are dead or frozen then. So no process checks between
/// the end of the lease and its turn.
pub(crate) fn queued(free_in: Option<Duration>, ahead: u32) -> Duration {
    let apart = APART.saturating_mul(ahead);
    let slow = (FALLBACK + apart).min(SLOWEST);
    match free_in {
        Some(free_in) if free_in <= slow => free_in + SHORTEST + apart.min(SLOWEST),
        _ => slow,
    }
}

/// The same for a process that is not signalled: it checks at the pace of [`busy`], even further
/// back, as it may become the first at any time.
pub(crate) fn unsignalled(
    hold_age: Duration,
    free_in: Option<Duration>,
    ahead: u32,
    random: f64,
) -> Duration {
    busy(SPINS, hold_age, free_in, random) * (1 + ahead.min(3))
}

/// How long an attempt on several servers takes at most, unless one of them does not answer.
pub(crate) const LONGEST_ATTEMPT: Duration = Duration::from_millis(100);

/// The pause after an attempt that lasted for `took` and met a split vote: random, so that one of
/// the competitors comes first next time, as the pattern of the distributed lock recommends. It is
/// drawn from twice the time with each of the `splits` before it in a row, as on Ethernet: the more
/// competitors there are, the further apart their attempts have to be.
pub(crate) fn split(took: Duration, splits: u32, random: f64) -> Duration {
    const LONGEST_WIDTH: Duration = Duration::from_millis(400);
    let width = split_width(took);
    let doubled = width * (1 << splits.min(4));
    SHORTEST + doubled.min(LONGEST_WIDTH).mul_f64(random)
}

/// For how long after its first answer a call that does not wait makes attempts that meet split
/// votes: two seconds at most.
pub(crate) fn split_time(took: Duration) -> Duration {
    10 * split_width(took)
}

/// A competitor has all votes if it asks between two attempts of the others: their pauses have to
/// be longer than its attempt, which takes as long as theirs.
fn split_width(took: Duration) -> Duration {
    (2 * took.min(LONGEST_ATTEMPT)).max(Duration::from_millis(20))
}

/// The pause after `failures` failures in a row of a node that may recover.
pub(crate) fn failed(failures: u32, random: f64) -> Duration {
    let full = Duration::from_millis(10 << failures.min(5));
    full.mul_f64(0.5 + random / 2.0)
}

/// The pause before a connection is made again, after `failures` in a row that could not be made,
/// or were of no use for long. The pause doubles so often at most: three `doublings` are some
/// dozens of connections a second.
pub(crate) fn reconnect(failures: u32, doublings: u32, random: f64) -> Duration {
    failed(failures.saturating_sub(1).min(doublings), random)
}

/// The same for a release, which is repeated until the lease has ended: the longer nodes have
/// failed, the longer the pause. Otherwise the releases of many owners would keep slow nodes from
/// answering. But the pause is two seconds at most, so that a lock is free soon after the nodes are
/// back; or so long that the releases that are `under_way` together are repeated some thousands of
/// times a second at most, however many an outage leaves behind.
pub(crate) fn undone(
    failures: u32,
    failing_for: Duration,
    under_way: usize,
    random: f64,
) -> Duration {
    const LONGEST: Duration = Duration::from_secs(2);
    const EACH: Duration = Duration::from_micros(500);
    let of_all = EACH.saturating_mul(u32::try_from(under_way).unwrap_or(u32::MAX));
    let full = (failing_for / 2).min(LONGEST.max(of_all));
    failed(failures, random).max(full.mul_f64(0.5 + random / 2.0))
}

/// The pause of a leader that stepped down, where the server has no queue: others who wait ask at
/// least once meanwhile.
pub(crate) const STEPPED_DOWN: Duration = Duration::from_millis(250);

/// The pause after `failures` campaigns in a row that could not be held.
pub(crate) fn campaign(failures: u32, random: f64) -> Duration {
    let full = Duration::from_millis(100 << failures.min(6));
    full.mul_f64(0.5 + random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempts_follow_at_once() {
        assert_eq!(busy(1, Duration::ZERO, None, 0.9), Duration::ZERO);
        assert_eq!(busy(2, Duration::ZERO, None, 0.9), Duration::ZERO);
        assert!(busy(3, Duration::ZERO, None, 0.0) > Duration::ZERO);
    }

    #[test]
    fn pauses_grow_with_the_wait_and_stay_bounded() {
        let at = |millis| busy(9, Duration::from_millis(millis), None, 1.0);
        assert_eq!(at(0), SHORTEST);
        assert_eq!(at(160), Duration::from_millis(10));
        assert_eq!(at(60_000), LONGEST);
    }

    /// Otherwise those that have failed together would ask together again.
    #[test]
    fn half_of_each_pause_is_random() {
        let hour = Duration::from_secs(3_600);
        let pauses = |random| {
            [
                busy(9, hour, None, random),
                crowded(600, random),
                failed(3, random),
                campaign(3, random),
                undone(50, hour, 1, random),
            ]
        };
        for (least, most) in pauses(0.0).into_iter().zip(pauses(1.0)) {
            assert_eq!(2 * least, most);
        }
    }

    #[test]
    fn the_first_reconnection_follows_the_shortest_pause() {
        let millis = Duration::from_millis;
        let pauses = [0, 1, 2, 3, 4, 5, 50].map(|failures| reconnect(failures, 3, 1.0));
        assert_eq!(pauses, [10, 10, 20, 40, 80, 80, 80].map(millis));
    }

    #[test]
    fn few_pollers_are_no_crowd() {
        assert_eq!(crowded(100, 1.0), Duration::ZERO);
        assert_eq!(crowded(5_100, 1.0), Duration::from_secs(1));
        assert!(crowded(usize::MAX, 1.0) > Duration::from_secs(3600));
    }

    #[test]
    fn a_pause_never_outlasts_the_holders_lease() {
        let free_in = Some(Duration::from_millis(5));
        assert_eq!(busy(9, Duration::from_secs(60), free_in, 1.0), Duration::from_millis(6));
    }

    #[test]
    fn rivals_of_a_split_vote_come_back_apart() {
        let millis = Duration::from_millis;
        assert_eq!(split(millis(9), 0, 0.0), SHORTEST);
        assert_eq!(split(millis(9), 0, 0.5), SHORTEST + millis(10));
        // The rivals are far from the servers, and may be on their way for this long.
        assert_eq!(split(millis(60), 0, 0.5), SHORTEST + millis(60));
        assert_eq!(split(millis(3_000), 0, 0.5), SHORTEST + LONGEST_ATTEMPT);
        assert_eq!((split_time(millis(1)), split_time(millis(60))), (millis(200), millis(1_200)));
    }

    #[test]
    fn many_rivals_come_back_further_and_further_apart() {
        let millis = Duration::from_millis;
        assert_eq!(split(millis(9), 1, 0.5), SHORTEST + millis(20));
        assert_eq!(split(millis(9), 3, 0.5), SHORTEST + millis(80));
        assert_eq!(split(millis(9), u32::MAX, 0.5), SHORTEST + millis(160));
        assert_eq!(split(LONGEST_ATTEMPT, 3, 0.5), SHORTEST + millis(200));
    }

    #[test]
    fn failures_back_off_to_a_third_of_a_second() {
        assert_eq!(failed(0, 1.0), Duration::from_millis(10));
        assert_eq!(failed(50, 1.0), Duration::from_millis(320));
    }

    #[test]
    fn releases_are_repeated_ever_more_rarely_up_to_a_bound() {
        let seconds = Duration::from_secs;
        assert_eq!(undone(0, Duration::ZERO, 1, 1.0), failed(0, 1.0));
        let (mut now, mut tries) = (Duration::ZERO, 0);
        while now < seconds(4) {
            now += undone(tries, now, 1, 0.5);
            tries += 1;
        }
        assert!((8..20).contains(&tries), "{tries}");
        for failing_for in [seconds(4), seconds(600), seconds(86_400), Duration::MAX] {
            assert_eq!(undone(50, failing_for, 1, 1.0), seconds(2));
            assert_eq!(undone(50, failing_for, 4_000, 0.0), seconds(1));
        }
        // Together, two thousand a second.
        assert_eq!(undone(50, seconds(3600), 100_000, 1.0), seconds(50));
        assert_eq!(undone(50, seconds(60), usize::MAX, 1.0), seconds(30));
    }

    #[test]
    fn campaigns_back_off_to_some_seconds() {
        assert_eq!(campaign(1, 0.0), Duration::from_millis(100));
        assert_eq!(campaign(u32::MAX, 1.0), Duration::from_millis(6_400));
        assert!(STEPPED_DOWN > 2 * LONGEST);
    }

    #[test]
    fn a_queue_entry_is_checked_when_the_lease_before_it_ends() {
        let millis = Duration::from_millis;
        assert_eq!(queued(Some(millis(300)), 0), millis(301));
        assert_eq!(queued(Some(millis(300)), 4), millis(501));
        // No later than a lost signal allows, and entries further back more slowly.
        assert_eq!(queued(Some(millis(60_000)), 0), FALLBACK);
        assert_eq!((queued(None, 0), queued(None, 2)), (FALLBACK, millis(1_100)));
        assert_eq!(queued(None, u32::MAX), SLOWEST);
        assert_eq!(queued(Some(millis(300)), u32::MAX), millis(301) + SLOWEST);
        // An entry further back is not checked when the lock has just become free.
        assert_eq!(queued(Some(millis(1_099)), 2), millis(1_200));
        assert_eq!(queued(Some(millis(1_101)), 2), millis(1_100));
    }

    #[test]
    fn unsignalled_processes_check_often_anywhere_in_the_queue() {
        assert_eq!(unsignalled(Duration::ZERO, None, 0, 1.0), SHORTEST);
        assert_eq!(unsignalled(Duration::ZERO, None, 1, 1.0), 2 * SHORTEST);
        assert_eq!(unsignalled(10 * FALLBACK, None, 9, 1.0), 4 * LONGEST);
    }
}
