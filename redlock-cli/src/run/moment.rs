//! The clock of leases, which goes on in suspend. All processes of a machine read the same one.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds on that clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) u64);

impl Moment {
    pub(super) const NEVER: Self = Self(u64::MAX);

    pub(super) fn now() -> Self {
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Self(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
    }

    pub(super) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    pub(super) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// Zero when `earlier` is later.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Sleeps until then, and for a second at most: timers stand still in suspend.
    pub(super) async fn sleep(self) {
        let left = self.since(Self::now());
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
