//! The clock that leases are measured on.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use once_cell::race::OnceBox;
use tokio::runtime::{Handle, RuntimeFlavor};

/// By how much moments of real time are ahead of the system's clock, in nanoseconds: two years,
/// more than the longest lease. Clients may have watched a server for longer than this machine has
/// been up, and the moment at which they began must not be cut to the machine's start.
const ORIGIN: u64 = 2 * 365 * 24 * 3600 * 1_000_000_000;

/// The longest sleep without a look at the real time.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// A point in time, as a [`Clock`] showed it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) const ZERO: Self = Self(0);
    /// Never reached: 584 years after the clock's origin.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    /// What the system's own clock shows then, in nanoseconds; zero: before it began.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), expect(dead_code))]
    pub(crate) const fn on_system_clock(self) -> u64 {
        self.0.saturating_sub(ORIGIN)
    }

    /// Zero when `earlier` is in fact later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(duration)))
    }

    pub(crate) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(duration)))
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The source of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Real time, counted through the suspend of a machine: `CLOCK_BOOTTIME` on Linux. A server's
    /// clock does not stop when a laptop or a virtual machine sleeps, so ours must not either.
    Boot,
    /// The clock of the tokio runtime, which tests can pause.
    Tokio,
}

/// The origin of the clock, a day before its first use, so that a moment is never zero: a clock
/// that tests have paused may show less than the real time of this process.
fn tokio_origin() -> std::time::Instant {
    // Never a lock to wait for: when a process forks, a thread of the parent may be filling the
    // cell.
    static ORIGIN: OnceBox<std::time::Instant> = OnceBox::new();
    let day_ago = || {
        let now = std::time::Instant::now();
        now.checked_sub(Duration::from_secs(24 * 3600)).unwrap_or(now)
    };
    *ORIGIN.get_or_init(|| Box::new(day_ago()))
}

/// The time of the caller's runtime; real time where there is none.
fn tokio_now() -> std::time::Instant {
    if has_tokio() { tokio::time::Instant::now().into_std() } else { std::time::Instant::now() }
}

/// `now` is read after the origin was made.
fn since_origin(now: impl FnOnce() -> std::time::Instant) -> Moment {
    let origin = tokio_origin();
    Moment(saturating_nanos(now().saturating_duration_since(origin)))
}

thread_local! {
    /// Whether tokio's locals of this thread are known to be there. It has no destructor, so that
    /// it can always be read.
    static HAS_TOKIO: Cell<bool> = const { Cell::new(false) };
    static END: ThreadEnd = const { ThreadEnd };
}

struct ThreadEnd;

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        HAS_TOKIO.set(false);
    }
}

/// Does this thread still have tokio's locals? A thread that ends may have dropped them before the
/// local that drops a guard, and a clock that tests may pause panics without them.
fn has_tokio() -> bool {
    HAS_TOKIO.get() || look_for_tokio()
}

#[cold]
fn look_for_tokio() -> bool {
    // This makes tokio's locals, if they are not there yet. The locals of a thread are dropped in
    // the opposite order: `END` comes before those.
    let is_gone = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
    if !is_gone && END.try_with(|_| ()).is_ok() {
        HAS_TOKIO.set(true);
    }
    !is_gone
}

impl Clock {
    pub(crate) fn now(self) -> Moment {
        match self {
            Self::Boot => boot_time(),
            Self::Tokio => since_origin(tokio_now),
        }
    }

    /// What a runtime's clock shows, which may be paused; without one, real time.
    /// [`Moment::ZERO`]: it cannot be told at the end of a thread.
    pub(crate) fn of_runtime(runtime: Option<&Handle>) -> Moment {
        match runtime {
            None => since_origin(std::time::Instant::now),
            Some(_) if !has_tokio() => Moment::ZERO,
            Some(runtime) => {
                let _inside = runtime.enter();
                since_origin(tokio_now)
            }
        }
    }

    /// What the wall clock showed at `moment`.
    pub(crate) fn wall_time(self, moment: Moment) -> SystemTime {
        let ago = self.now().since(moment);
        SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// What the wall clock of this machine shows now, in microseconds since 1970. It may jump, and
    /// agrees with other machines only as far as their clocks are synchronised.
    pub(crate) fn wall_micros(self) -> i64 {
        let since_1970 = match self {
            Self::Boot => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH),
            Self::Tokio => Ok(self.now().since(Moment::ZERO)),
        };
        i64::try_from(since_1970.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
    }

    /// Sleeps until `moment`. Cancel safe: dropping it has no effect.
    ///
    /// The timers of the runtime stop while the machine is suspended, so that real time is looked
    /// at now and then: after a suspend, this is [`LONGEST_SLEEP`] late at most.
    pub(crate) async fn sleep_until(self, moment: Moment) {
        if moment == Moment::NEVER {
            // No timer at all: a paused clock would jump to it.
            std::future::pending::<()>().await;
        }
        loop {
            let now = self.now();
            if now >= moment {
                return;
            }
            let left = moment.since(now);
            let pause = if self == Self::Boot { left.min(LONGEST_SLEEP) } else { left };
            tokio::time::sleep(pause).await;
        }
    }
}

/// The runtime of the caller, if a test has paused its clock. Such a clock stands still while no
/// task awaits a timer, and jumps otherwise. All other clocks are real time.
pub(crate) fn paused_runtime() -> Option<Handle> {
    let here = Handle::try_current().ok()?;
    // The clocks of other runtimes cannot be paused.
    if here.runtime_flavor() == RuntimeFlavor::MultiThread {
        return None;
    }
    let shown = tokio::time::Instant::now();
    let real = std::time::Instant::now();
    while real.elapsed().is_zero() {
        std::hint::spin_loop();
    }
    shown.elapsed().is_zero().then_some(here)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos).saturating_add(ORIGIN))
}

/// On other systems: the standard library's monotonic clock, which may stop in suspend.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot_time() -> Moment {
    let shown = std::time::Instant::now().saturating_duration_since(tokio_origin());
    Moment(saturating_nanos(shown).saturating_add(ORIGIN))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let moment = Moment::from_nanos(10);
        assert_eq!(moment.minus(Duration::from_secs(1)), Moment::ZERO);
        assert_eq!(Moment::NEVER.plus(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(moment.since(Moment::from_nanos(11)), Duration::ZERO);
    }

    #[test]
    fn the_boot_clock_moves_forward() {
        let first = Clock::Boot.now();
        assert!(Clock::Boot.now() >= first);
    }

    #[test]
    fn a_year_ago_is_a_moment_of_its_own_however_short_the_machine_is_up() {
        let (now, year) = (Clock::Boot.now(), Duration::from_secs(365 * 24 * 3600));
        assert_eq!(now.since(now.minus(year)), year);
    }

    /// The real time that went by before its first use does not count.
    #[test]
    fn a_clock_that_was_paused_long_ago_moves_from_its_first_use_on() {
        let paused = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        // Busy for a moment of real time, in which the paused clock stands.
        let real = std::time::Instant::now();
        while real.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        paused.block_on(async {
            let start = Clock::Tokio.now();
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(Clock::Tokio.now().since(start), Duration::from_millis(1));
        });
    }

    /// It may have gone on while the timers of the runtime stood still.
    #[tokio::test(start_paused = true)]
    async fn a_long_sleep_looks_at_the_real_time_now_and_then() {
        let hour = Duration::from_secs(3600);
        let mut sleep = pin!(Clock::Boot.sleep_until(Clock::Boot.now().plus(hour)));
        let mut looks = 0;
        let counted = poll_fn(|cx| {
            looks += 1;
            sleep.as_mut().poll(cx)
        });
        // The paused clock of the timers jumps; an hour of real time does not go by.
        let minute = 12 * LONGEST_SLEEP;
        assert!(tokio::time::timeout(minute, counted).await.is_err());
        assert!(looks >= 12, "{looks}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_can_be_advanced() {
        let clock = Clock::Tokio;
        let start = clock.now();
        clock.sleep_until(start.plus(Duration::from_secs(3600))).await;
        assert!(clock.now().since(start) >= Duration::from_secs(3600));
    }
}
