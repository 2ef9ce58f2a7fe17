//! For how long a client avoids a feature that the server has denied to its user. Pure; `now` is an
//! argument.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::clock::Moment;

/// A denied feature is tried again after this time, then after twice that, and so on.
const SHORTEST: Duration = Duration::from_secs(2);
/// The longest pause, for as long as the feature stays denied.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause after a feature was denied this many times before, in a row.
pub(crate) fn pause(times: u32) -> Duration {
    SHORTEST.saturating_mul(1 << times.min(8)).min(LONGEST)
}

/// What is known about one permission. Checking costs one load as long as it was not denied.
#[derive(Debug, Default)]
pub(crate) struct Denial {
    /// In nanoseconds; zero: the feature is allowed, as far as is known.
    until: AtomicU64,
    times: AtomicU32,
}

impl Denial {
    /// Should the feature be avoided at `now`?
    pub(crate) fn lasts(&self, now: impl FnOnce() -> Moment) -> bool {
        match self.until.load(Ordering::Relaxed) {
            0 => false,
            until => now().nanos() < until,
        }
    }

    /// Was the feature denied when it was used last?
    pub(crate) fn was_denied(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// The feature was denied. Returns whether this is the first time in a row.
    pub(crate) fn denied(&self, now: Moment) -> bool {
        // Several commands that were in flight at once count as one try.
        if self.lasts(|| now) {
            return false;
        }
        let times = self.times.fetch_add(1, Ordering::Relaxed);
        self.until.store(now.plus(pause(times)).nanos(), Ordering::Relaxed);
        times == 0
    }

    /// The feature was allowed.
    pub(crate) fn allowed(&self) {
        if self.was_denied() {
            self.until.store(0, Ordering::Relaxed);
            self.times.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::ZERO.plus(Duration::from_secs(secs))
    }

    #[test]
    fn what_is_denied_is_tried_after_pauses_that_grow_to_a_minute() {
        let denial = Denial::default();
        assert!(!denial.lasts(|| unreachable!("nothing was denied")));
        let mut now = 100;
        for (number, pause) in [2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
            assert_eq!(denial.denied(at(now)), number == 0);
            assert!(!denial.denied(at(now)), "the same try");
            assert!(denial.lasts(|| at(now + pause - 1)) && !denial.lasts(|| at(now + pause)));
            now += pause;
        }
        assert!(denial.was_denied());
        denial.allowed();
        assert!(!denial.was_denied() && !denial.lasts(|| at(now)));
        assert!(denial.denied(at(now)), "it is news again");
        assert!(!denial.lasts(|| at(now + 2)));
    }
}
