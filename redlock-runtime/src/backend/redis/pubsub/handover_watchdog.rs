//! The watchdog of hand-overs: a process that was handed a lock may have died.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::CLAIM_WINDOW;
use crate::key::LockKey;

/// How much longer than its lease a hand-over may take.
const GRACE: Duration = Duration::from_millis(5);

/// The latest hand-over of each key by this process, until its claim window is over. Each further
/// hand-over of the key delays the check.
#[derive(Debug, Default)]
pub(crate) struct HandoverWatchdog {
    due: Mutex<HashMap<LockKey, Instant>>,
    begun: Notify,
}

impl HandoverWatchdog {
    /// The lock was handed over now.
    pub(crate) fn begin(&self, key: &LockKey) {
        self.look_again(key, CLAIM_WINDOW);
    }

    /// The lock may be free in `after`.
    pub(crate) fn look_again(&self, key: &LockKey, after: Duration) {
        let mut due = self.due();
        let was_empty = due.is_empty();
        due.insert(key.clone(), Instant::now() + after + GRACE);
        drop(due);
        if was_empty {
            self.begun.notify_one();
        }
    }

    /// The locks that were not claimed in time, as far as this process knows. Cancel safe.
    pub(crate) async fn overdue(&self) -> Vec<LockKey> {
        loop {
            let Some(next) = self.due().values().min().copied() else {
                self.begun.notified().await;
                continue;
            };
            // A hand-over that begins meanwhile is not due before this one.
            tokio::time::sleep_until(next).await;
            let now = Instant::now();
            let mut due = self.due();
            let overdue: Vec<_> = due.extract_if(|_, at| *at <= now).map(|(key, _)| key).collect();
            if !overdue.is_empty() {
                return overdue;
            }
        }
    }

    fn due(&self) -> MutexGuard<'_, HashMap<LockKey, Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> LockKey {
        LockKey::new("lock:", name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_hand_over_is_overdue_when_its_claim_window_is_over() {
        let watch = HandoverWatchdog::default();
        let start = Instant::now();
        let begin = async {
            tokio::task::yield_now().await;
            watch.begin(&key("a"));
        };
        let (overdue, ()) = tokio::join!(watch.overdue(), begin);
        assert_eq!(overdue, [key("a")]);
        assert!(start.elapsed() > CLAIM_WINDOW && start.elapsed() < CLAIM_WINDOW + 2 * GRACE);
        assert!(watch.due().is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_moves_is_never_overdue() {
        let watch = HandoverWatchdog::default();
        let moving = async {
            for _ in 0..100 {
                watch.begin(&key("a"));
                tokio::time::sleep(CLAIM_WINDOW * 9 / 10).await;
            }
        };
        tokio::select! {
            biased;
            overdue = watch.overdue() => panic!("{overdue:?}"),
            () = moving => {}
        }
    }

    /// The lock that is due first does not wait for the one that was noted first.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_free_soon_is_looked_at_soon() {
        let watch = HandoverWatchdog::default();
        watch.begin(&key("late"));
        watch.look_again(&key("soon"), Duration::from_millis(10));
        assert_eq!(watch.overdue().await, [key("soon")]);
        assert_eq!(watch.overdue().await, [key("late")]);
    }
}
