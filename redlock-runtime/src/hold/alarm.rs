//! Wakes the driver at a moment of the clock that leases are measured on. The timers of the runtime
//! stop while the machine is suspended, and are late by as much afterwards.

use super::alarm::boot_timer::BootTimer;
use crate::clock::{Clock, Moment};

#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    /// `None`: this system has no such timer, or grants no more file descriptors. The timers of the
    /// runtime are used instead.
    timer: Option<BootTimer>,
}

impl Alarm {
    /// `clock`: only real time has a boot timer, which needs a runtime with I/O.
    pub(crate) fn new(clock: Clock) -> Self {
        let timer = (clock == Clock::Boot).then(BootTimer::new).flatten();
        Self { clock, timer }
    }

    /// Resolves at `moment`, or a little later. Cancel safe.
    pub(crate) async fn rings_at(&self, moment: Moment) {
        if let Some(timer) = &self.timer
            && moment != Moment::NEVER
        {
            while self.clock.now() < moment && timer.rings_at(moment).await.is_ok() {}
        }
        // This returns at once, unless there is no boot timer or it failed.
        self.clock.sleep_until(moment).await;
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod boot_timer {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    use crate::clock::Moment;

    /// The runtime treats it as a pipe, from which eight bytes can be read after each ring.
    #[derive(Debug)]
    pub(crate) struct BootTimer(Receiver);

    impl BootTimer {
        pub(crate) fn new() -> Option<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Boottime, flags).ok()?;
            Receiver::from_file_unchecked(File::from(timer)).ok().map(Self)
        }

        /// Resolves at `moment`, or earlier if the timer was set to another moment before. Cancel
        /// safe.
        pub(crate) async fn rings_at(&self, moment: Moment) -> io::Result<()> {
            let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
            // Zero would switch it off.
            let shown = moment.on_system_clock().max(1);
            let seconds = (shown / NANOS).try_into().map_err(out_of_range)?;
            let nanos = (shown % NANOS).try_into().map_err(out_of_range)?;
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let at = Timespec { tv_sec: seconds, tv_nsec: nanos };
            let once = Itimerspec { it_interval: never, it_value: at };
            timerfd_settime(self.0.as_fd(), TimerfdTimerFlags::ABSTIME, &once)?;
            self.0.readable().await?;
            match self.0.try_read(&mut [0; 8]) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok(()),
            }
        }
    }

    const NANOS: u64 = 1_000_000_000;
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod boot_timer {
    use std::io;

    use crate::clock::Moment;

    #[derive(Debug)]
    pub(crate) enum BootTimer {}

    impl BootTimer {
        pub(crate) fn new() -> Option<Self> {
            None
        }

        pub(crate) async fn rings_at(&self, _: Moment) -> io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_millis(5);

    fn soon() -> Moment {
        Clock::Boot.now().plus(SOON)
    }

    #[tokio::test]
    async fn it_rings_at_its_moment_however_often_it_was_set() {
        let alarm = Alarm::new(Clock::Boot);
        for _ in 0..5 {
            let never = tokio::time::timeout(Duration::ZERO, alarm.rings_at(Moment::NEVER));
            assert!(never.await.is_err());
            let late = Clock::Boot.now().plus(Duration::from_secs(3600));
            assert!(tokio::time::timeout(2 * SOON, alarm.rings_at(late)).await.is_err());
            let moment = soon();
            alarm.rings_at(moment).await;
            assert!(Clock::Boot.now() >= moment);
            alarm.rings_at(moment).await;
            alarm.rings_at(Moment::ZERO).await;
        }
    }

    /// This happens after a suspend, which stops the clock of the runtime's timers.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[tokio::test(start_paused = true)]
    async fn it_rings_while_the_timers_of_the_runtime_stand_still() {
        let (go_on, stays) = mpsc::channel::<()>();
        // A paused clock does not jump as long as this runs.
        let stand = Duration::from_secs(20);
        let stands = tokio::task::spawn_blocking(move || stays.recv_timeout(stand));
        Alarm::new(Clock::Boot).rings_at(soon()).await;
        assert!(!stands.is_finished());
        drop(go_on);
    }
}
