//! How late a process of this machine runs when its time has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fault_kit::{block_thread, ms};

const TICK: Duration = ms(10);

/// A thread that sleeps again and again, and keeps the most by which it woke too late.
pub struct Pace(Arc<Shared>);

#[derive(Default)]
struct Shared {
    worst_millis: AtomicU64,
    is_over: AtomicBool,
}

impl Pace {
    pub fn watch() -> Self {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            while !own.is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                block_thread(TICK);
                let late = begin.elapsed().saturating_sub(TICK).as_millis();
                own.worst_millis.fetch_max(late.try_into().unwrap(), Ordering::Relaxed);
            }
        });
        Self(shared)
    }

    /// What a bound on another process has to allow for: it wakes late, and so does whoever ends
    /// it.
    pub fn allowance(&self) -> Duration {
        ms(self.0.worst_millis.load(Ordering::Relaxed)) * 2
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
