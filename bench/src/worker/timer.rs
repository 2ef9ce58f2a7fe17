//! Moments that are met to some ten microseconds, by sleeping: the timers of tokio have a grain of
//! 1 ms, which is as long as a body.

use std::time::Duration;

use crate::monotonic;

/// Returns shortly after so long.
pub async fn sleep(length: Duration) {
    let length = u64::try_from(length.as_nanos()).expect("bodies are short");
    until(monotonic::now() + length).await;
}

/// Returns shortly after `moment` of the monotonic clock: a timer that the runtime waits for as it
/// waits for a socket.
#[cfg(target_os = "linux")]
pub async fn until(moment: u64) {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    if moment <= monotonic::now() {
        return;
    }
    let part = |nanos: u64| i64::try_from(nanos).expect("the clock has room for centuries");
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once =
        Timespec { tv_sec: part(moment / 1_000_000_000), tv_nsec: part(moment % 1_000_000_000) };
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags).expect("there are timers");
    let at = Itimerspec { it_interval: never, it_value: once };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &at).expect("the moment is valid");
    // Its successor is unsafe, for descriptors that others may close; this one is owned.
    #[allow(deprecated)]
    let timer = AsyncFd::with_interest(timer, Interest::READABLE).expect("it can be waited for");
    // It is readable once, when it has fired.
    drop(timer.readable().await.expect("the runtime runs"));
}

/// With the grain of the runtime.
#[cfg(not(target_os = "linux"))]
pub async fn until(moment: u64) {
    tokio::time::sleep(Duration::from_nanos(moment.saturating_sub(monotonic::now()))).await;
}
