//! When the command gets SIGTERM and SIGKILL. Pure arithmetic.

use std::time::Duration;

use super::moment::Moment;

/// How long to sleep between two looks at the lease: an eighth of what is left of it, within these
/// bounds. A lock that was handed over begins with a short lease, which is made full soon.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The longest grace while a lock that was handed over is not claimed: its lease lasts a second, of
/// which two tries of the claim need the most part.
const UNCLAIMED_GRACE: Duration = Duration::from_millis(160);

/// What is known of the lease.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Condition {
    /// Lost.
    pub(super) is_over: bool,
    /// A renewal was not confirmed, or there will be no more renewals.
    pub(super) is_ending: bool,
    /// The lock was handed over for a moment; its full lease was asked for, and not confirmed yet.
    pub(super) is_unclaimed: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// SIGTERM, and SIGKILL after this time.
    Terminate(Duration),
    Kill,
}

/// The end of the lease, and what follows from it.
#[derive(Debug)]
pub(super) struct Deadline {
    /// From here on the command must not run: some time before the lease can end on the server.
    until: Moment,
    grace: Duration,
    kill_at: Option<Moment>,
}

impl Deadline {
    pub(super) fn new(until: Moment, grace: Duration) -> Self {
        Self { until, grace, kill_at: None }
    }

    pub(super) fn until(&self) -> Moment {
        self.until
    }

    /// The lease was confirmed.
    pub(super) fn extend(&mut self, until: Moment) {
        self.until = until;
    }

    /// What to do now.
    pub(super) fn judge(&mut self, now: Moment, lease: Condition) -> Verdict {
        if let Some(kill_at) = self.kill_at {
            return if now >= kill_at { Verdict::Kill } else { Verdict::GoOn };
        }
        let shortened = lease.is_unclaimed.then_some(UNCLAIMED_GRACE);
        let grace = shortened.map_or(self.grace, |most| most.min(self.grace));
        let is_near = now >= self.until.minus(grace);
        if !(lease.is_over || now >= self.until || is_near && lease.is_ending) {
            return Verdict::GoOn;
        }
        self.terminate(now)
    }

    /// The command is to end, whatever the state of the lease. A grace that has begun before goes
    /// on.
    pub(super) fn terminate(&mut self, now: Moment) -> Verdict {
        let kill_at = now.plus(self.grace).min(self.until).min(self.kill_at.unwrap_or(self.until));
        self.kill_at = Some(kill_at);
        if now >= kill_at { Verdict::Kill } else { Verdict::Terminate(kill_at.since(now)) }
    }

    /// When to look again.
    pub(super) fn next_look(&self, now: Moment) -> Moment {
        let pause = (self.until.since(now) / 8).clamp(SHORTEST_LOOK, LONGEST_LOOK);
        let term_at = Some(self.until.minus(self.grace)).filter(|at| *at > now);
        let events = [term_at, self.kill_at.filter(|at| *at > now), Some(now.plus(pause))];
        events.into_iter().flatten().min().unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment(1_000_000_000_000);
    const HELD: Condition = Condition { is_over: false, is_ending: false, is_unclaimed: false };
    const LOST: Condition = Condition { is_over: true, ..HELD };
    const ENDING: Condition = Condition { is_ending: true, ..HELD };

    fn at(millis: u64) -> Moment {
        START.plus(Duration::from_millis(millis))
    }

    /// A lease that ends after 28 s, and 5 s of grace.
    fn deadline() -> Deadline {
        Deadline::new(at(28_000), Duration::from_secs(5))
    }

    fn terminate(millis: u64) -> Verdict {
        Verdict::Terminate(Duration::from_millis(millis))
    }

    #[test]
    fn a_lost_lock_leaves_the_grace() {
        let mut deadline = deadline();
        assert_eq!(deadline.judge(at(20_000), HELD), Verdict::GoOn);
        assert_eq!(deadline.judge(at(20_001), LOST), terminate(5_000));
        assert_eq!(deadline.judge(at(25_000), LOST), Verdict::GoOn);
        assert_eq!(deadline.judge(at(25_001), LOST), Verdict::Kill);
    }

    #[test]
    fn a_second_reason_to_end_gives_no_second_grace() {
        let mut deadline = deadline();
        assert_eq!(deadline.judge(at(20_000), LOST), terminate(5_000));
        assert_eq!(deadline.terminate(at(24_000)), terminate(1_000));
        assert_eq!(deadline.judge(at(25_000), LOST), Verdict::Kill);
    }

    #[test]
    fn the_grace_ends_with_the_lease() {
        assert_eq!(deadline().judge(at(26_000), LOST), terminate(2_000));
        assert_eq!(deadline().judge(at(28_000), LOST), Verdict::Kill);
        assert_eq!(deadline().judge(at(28_000), HELD), Verdict::Kill);
        assert_eq!(deadline().judge(at(99_000), ENDING), Verdict::Kill);
    }

    #[test]
    fn a_lease_that_nobody_confirms_ends_with_the_whole_grace() {
        let mut deadline = deadline();
        assert_eq!(deadline.judge(at(22_999), ENDING), Verdict::GoOn);
        assert_eq!(deadline.judge(at(23_000), ENDING), terminate(5_000));
        assert_eq!(deadline.judge(at(28_000), ENDING), Verdict::Kill);
    }

    #[test]
    fn a_renewal_that_is_under_way_is_waited_for() {
        let mut deadline = deadline();
        assert_eq!(deadline.judge(at(24_000), HELD), Verdict::GoOn);
        deadline.extend(at(52_000));
        assert_eq!(deadline.judge(at(46_000), HELD), Verdict::GoOn);
    }

    #[test]
    fn a_renewal_that_comes_after_sigterm_does_not_take_it_back() {
        let mut deadline = deadline();
        assert_eq!(deadline.judge(at(23_000), ENDING), terminate(5_000));
        deadline.extend(at(52_000));
        assert_eq!(deadline.judge(at(28_000), HELD), Verdict::Kill);
    }

    #[test]
    fn a_lock_that_was_handed_over_has_time_to_be_claimed() {
        let unclaimed = Condition { is_unclaimed: true, ..ENDING };
        let mut deadline = Deadline::new(at(938), Duration::from_secs(5));
        assert_eq!(deadline.judge(at(777), unclaimed), Verdict::GoOn, "the second try");
        assert_eq!(deadline.judge(at(778), unclaimed), terminate(160));
        let mut claimed = Deadline::new(at(938), Duration::from_secs(5));
        assert_eq!(claimed.judge(at(777), unclaimed), Verdict::GoOn);
        claimed.extend(at(28_000));
        assert_eq!(claimed.judge(at(779), ENDING), Verdict::GoOn);
        let short = Deadline::new(at(938), Duration::from_millis(100)).judge(at(800), unclaimed);
        assert_eq!(short, Verdict::GoOn, "a grace that is shorter anyway");
    }

    #[test]
    fn nothing_is_slept_through() {
        let mut deadline = deadline();
        assert_eq!(deadline.next_look(at(0)), at(1_000));
        assert_eq!(deadline.next_look(at(22_900)), at(22_900 + 100));
        assert_eq!(deadline.next_look(at(27_992)), at(28_002));
        deadline.terminate(at(20_000));
        assert_eq!(deadline.next_look(at(24_800)), at(24_800).plus(Duration::from_millis(200)));
    }
}
