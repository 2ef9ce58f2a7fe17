//! Watches a server's clock against ours. Pure.
//!
//! Every answer brings the server's time, read somewhere between the moments at which we sent and
//! received: that bounds the difference of the two clocks. Clocks drift; if the difference moves by
//! more than drift explains, a clock has jumped.

use std::time::Duration;

use crate::backend::ClockOffset;
use crate::clock::Moment;
use crate::validity;

/// Up to this time the allowed drift is that of a lease. Over hours, clocks keep much closer
/// together: the allowed rate is then 0.1 %, ten times that of a quartz.
const SHORT: Duration = Duration::from_secs(60);

/// One sample of the server's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// What the clock showed, in microseconds since 1970.
    pub(crate) micros: i64,
    pub(crate) sent: Moment,
    pub(crate) received: Moment,
}

impl Sample {
    /// The bounds of the server's clock minus ours, in microseconds.
    fn bounds(self) -> (i64, i64) {
        (
            self.micros.saturating_sub(micros(self.received)),
            self.micros.saturating_sub(micros(self.sent)),
        )
    }
}

/// What is known about the difference of two clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockJumps {
    known: Option<ClockOffset>,
}

impl ClockJumps {
    /// The server's clock minus ours, as far as it is known.
    pub(crate) fn known(&self) -> Option<ClockOffset> {
        self.known
    }

    /// Learns from a sample. `Some`: the server's clock has jumped, by at least this many
    /// microseconds.
    pub(crate) fn observe(&mut self, sample: Sample) -> Option<i64> {
        let (low, high) = sample.bounds();
        let at = sample.received;
        let Some(known) = self.known else {
            self.known = Some(ClockOffset { low, high, at });
            return None;
        };
        let slack = drift(at.since(known.at));
        let (lowest, highest) = (known.low.saturating_sub(slack), known.high.saturating_add(slack));
        let jump = if low > highest {
            low.saturating_sub(known.high)
        } else if high < lowest {
            high.saturating_sub(known.low)
        } else {
            let (low, high) = (low.max(lowest), high.min(highest));
            self.known = Some(ClockOffset { low, high, at: at.max(known.at) });
            return None;
        };
        self.known = Some(ClockOffset { low, high, at });
        Some(jump)
    }
}

/// How far two clocks may drift apart in this time, in microseconds.
fn drift(elapsed: Duration) -> i64 {
    let short = validity::drift(elapsed.min(SHORT));
    let long = elapsed.saturating_sub(SHORT) / 1000;
    i64::try_from((short + long).as_micros()).unwrap_or(i64::MAX)
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.nanos() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: i64 = 1_000;
    const SECOND: i64 = 1_000_000;

    /// A sample taken `at` microseconds after the start, answered within 2 ms.
    fn sample(at: i64, micros: i64) -> Sample {
        let moment = |micros: i64| Moment::from_nanos(u64::try_from(micros * 1000).unwrap());
        Sample { micros, sent: moment(at), received: moment(at + 2 * MILLI) }
    }

    #[test]
    fn clocks_that_keep_pace_do_not_jump() {
        // Half a percent fast, or slow.
        for rate in [200, -200] {
            let mut watch = ClockJumps::default();
            for second in 0..1_000 {
                let at = second * SECOND;
                let seen = watch.observe(sample(at, 7 * SECOND + at + at / rate));
                assert_eq!(seen, None, "{rate}: {second}");
            }
        }
    }

    /// What a proxy says that is no clock.
    #[test]
    fn the_ends_of_all_numbers_are_no_overflow() {
        let mut watch = ClockJumps::default();
        for micros in [i64::MIN, 5, i64::MAX, i64::MIN, 0] {
            watch.observe(sample(SECOND, micros));
        }
    }

    #[test]
    fn a_jump_is_seen_at_the_next_answer_in_both_directions() {
        for jump in [60 * SECOND, -60 * SECOND, 100 * MILLI, -100 * MILLI] {
            let mut watch = ClockJumps::default();
            assert_eq!(watch.observe(sample(SECOND, 500 * SECOND)), None);
            let seen = watch.observe(sample(2 * SECOND, 501 * SECOND + jump)).unwrap();
            assert!((seen - jump).abs() <= 4 * MILLI, "{jump}: {seen}");
            // From then on the new difference is expected.
            assert_eq!(watch.observe(sample(3 * SECOND, 502 * SECOND + jump)), None);
        }
    }

    /// Two clocks may drift apart by 12 ms in one second, and not by a microsecond more.
    #[test]
    fn a_jump_begins_where_drift_ends() {
        let (fast, slow) = (501 * SECOND + 14 * MILLI, 501 * SECOND - 14 * MILLI);
        for (micros, jump) in [
            (fast, None),
            (fast + 1, Some(12 * MILLI + 1)),
            (slow, None),
            (slow - 1, Some(-12 * MILLI - 1)),
        ] {
            let mut watch = ClockJumps::default();
            assert_eq!(watch.observe(sample(SECOND, 500 * SECOND)), None);
            assert_eq!(watch.observe(sample(2 * SECOND, micros)), jump, "{micros}");
        }
    }

    #[test]
    fn the_offset_of_a_clock_is_in_the_middle_of_what_it_can_be() {
        let mut watch = ClockJumps::default();
        assert_eq!(watch.known(), None);
        watch.observe(sample(SECOND, 500 * SECOND));
        assert_eq!(watch.known().unwrap().middle(), Some(499 * SECOND - MILLI));
        let mut watch = ClockJumps::default();
        watch.observe(sample(7 * SECOND, 3 * SECOND + 1));
        assert_eq!(watch.known().unwrap().middle(), Some(-4 * SECOND - MILLI + 1));
    }

    #[test]
    fn a_slow_answer_explains_a_difference() {
        let mut watch = ClockJumps::default();
        assert_eq!(watch.observe(sample(SECOND, 500 * SECOND)), None);
        let slow = Sample {
            micros: 504 * SECOND,
            sent: Moment::from_nanos(2_000_000_000),
            received: Moment::from_nanos(6_000_000_000),
        };
        assert_eq!(watch.observe(slow), None);
        // But the known bounds stay as narrow as they were.
        assert!(watch.observe(sample(7 * SECOND, 508 * SECOND)).is_some());
    }

    /// Each answer allows for the drift since the one before it only.
    #[test]
    fn a_small_jump_is_seen_after_many_answers_in_both_directions() {
        for jump in [100 * MILLI, -100 * MILLI] {
            let mut watch = ClockJumps::default();
            for second in 0..100 {
                assert_eq!(watch.observe(sample(second * SECOND, (500 + second) * SECOND)), None);
            }
            // A slow answer, and one that was overtaken as well, say nothing new.
            let slow = Sample { sent: Moment::ZERO, ..sample(99 * SECOND, 599 * SECOND) };
            let overtaken = Sample { sent: Moment::ZERO, ..sample(2 * SECOND, 500 * SECOND) };
            for late in [slow, overtaken] {
                assert_eq!(watch.observe(late), None);
            }
            let seen = watch.observe(sample(100 * SECOND, 600 * SECOND + jump));
            assert!(seen.is_some(), "{jump}");
        }
    }

    #[test]
    fn clocks_may_drift_by_one_percent_for_a_minute_and_by_a_thousandth_from_then_on() {
        for (secs, millis) in [(0, 2), (30, 302), (60, 602), (120, 662), (86_400, 86_942)] {
            assert_eq!(drift(Duration::from_secs(secs)), millis * MILLI, "{secs}");
        }
    }

    #[test]
    fn after_an_idle_day_a_minute_of_drift_is_not_a_jump_but_an_hour_is() {
        let day = 86_400 * SECOND;
        let mut watch = ClockJumps::default();
        assert_eq!(watch.observe(sample(SECOND, 500 * SECOND)), None);
        assert_eq!(watch.observe(sample(SECOND + day, 560 * SECOND + day)), None);
        assert!(watch.observe(sample(SECOND + 2 * day, 4_200 * SECOND + 2 * day)).is_some());
    }
}
