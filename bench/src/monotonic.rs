//! `CLOCK_MONOTONIC`: the same in all processes of a machine, and in all languages.

use rustix::time::{ClockId, clock_gettime};

pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    u64::try_from(nanos).expect("the clock counts from the start of the machine")
}
