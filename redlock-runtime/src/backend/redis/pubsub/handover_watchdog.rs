//! The watchdog of hand-overs: a process that was handed a lock may have died.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::key::LockKey;
use crate::mutex::Mutex;
use crate::owner::Owner;

/// How much longer than its lease a hand-over may take.
const GRACE: Duration = Duration::from_millis(5);

/// When this process looks at each lock that it handed over, or let go of while somebody waits for
/// the end of its `min_hold`. Each further hand-over of a key delays the check.
#[derive(Debug, Default)]
pub(crate) struct HandoverWatchdog {
    checks: Mutex<Checks>,
    begun: Notify,
}

#[derive(Debug, Default)]
struct Checks {
    /// In the order in which they are due.
    due: BTreeMap<Place, (LockKey, Owner)>,
    /// Where the check of each lock stands.
    places: HashMap<LockKey, Place>,
    /// How many there have been.
    count: u64,
    /// Until when the watchdog sleeps; `None`: until it is notified.
    wakes_at: Option<Instant>,
}

/// When a check is due, and its number.
type Place = (Instant, u64);

impl Checks {
    /// The check of a lock is due at this moment, and no longer when it was before. `owner`: who
    /// let go of the lock here.
    fn set(&mut self, key: &LockKey, owner: &Owner, at: Instant) {
        self.count += 1;
        let place = (at, self.count);
        if let Some(before) = self.places.insert(key.clone(), place) {
            self.due.remove(&before);
        }
        self.due.insert(place, (key.clone(), owner.clone()));
    }

    fn first(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out the first one if it is due by `now`.
    fn take_due(&mut self, now: Instant) -> Option<(LockKey, Owner)> {
        self.first().filter(|at| *at <= now)?;
        let (_, (key, owner)) = self.due.pop_first()?;
        self.places.remove(&key);
        Some((key, owner))
    }
}

impl HandoverWatchdog {
    /// `owner` has let go of the lock, which may be free in `after`.
    pub(crate) fn look_again(&self, key: &LockKey, owner: &Owner, after: Duration) {
        let at = Instant::now() + after + GRACE;
        let mut checks = self.checks.lock();
        checks.set(key, owner, at);
        let is_first = checks.wakes_at.is_none_or(|wakes_at| at < wakes_at);
        if is_first {
            checks.wakes_at = Some(at);
        }
        drop(checks);
        if is_first {
            self.begun.notify_one();
        }
    }

    /// The locks that were not claimed in time, as far as this process knows, and who let go of
    /// each. Cancel safe.
    pub(crate) async fn overdue(&self) -> Vec<(LockKey, Owner)> {
        loop {
            let next = {
                let mut checks = self.checks.lock();
                checks.wakes_at = checks.first();
                checks.wakes_at
            };
            let Some(next) = next else {
                self.begun.notified().await;
                continue;
            };
            tokio::select! {
                () = self.begun.notified() => continue,
                () = tokio::time::sleep_until(next) => {}
            }
            let now = Instant::now();
            let mut checks = self.checks.lock();
            let overdue: Vec<_> = std::iter::from_fn(|| checks.take_due(now)).collect();
            if !overdue.is_empty() {
                return overdue;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::CLAIM_WINDOW;

    fn key(name: &str) -> LockKey {
        LockKey::new("lock:", name).unwrap()
    }

    fn begin(watch: &HandoverWatchdog, name: &str) {
        look_again(watch, name, CLAIM_WINDOW);
    }

    fn look_again(watch: &HandoverWatchdog, name: &str, after: Duration) {
        watch.look_again(&key(name), &Owner::of_nobody("a"), after);
    }

    async fn overdue(watch: &HandoverWatchdog) -> Vec<LockKey> {
        watch.overdue().await.into_iter().map(|(key, _)| key).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_hand_over_is_overdue_when_its_claim_window_is_over() {
        let watch = HandoverWatchdog::default();
        let start = Instant::now();
        let begun = async {
            tokio::task::yield_now().await;
            begin(&watch, "a");
        };
        let (found, ()) = tokio::join!(overdue(&watch), begun);
        assert_eq!(found, [key("a")]);
        assert!(start.elapsed() > CLAIM_WINDOW && start.elapsed() < CLAIM_WINDOW + 2 * GRACE);
        let checks = watch.checks.lock();
        assert!(checks.due.is_empty() && checks.places.is_empty(), "nothing is left behind");
    }

    /// Also before the time at which it was noted to be due.
    #[tokio::test(start_paused = true)]
    async fn a_lock_is_looked_at_when_its_last_hand_over_says_so() {
        let watch = HandoverWatchdog::default();
        for seconds in [9, 2, 5] {
            look_again(&watch, "a", Duration::from_secs(seconds));
            look_again(&watch, "b", Duration::from_secs(seconds));
        }
        let start = Instant::now();
        assert_eq!(overdue(&watch).await, [key("a"), key("b")]);
        assert_eq!(start.elapsed(), Duration::from_secs(5) + GRACE);
        assert!(watch.checks.lock().due.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_moves_is_never_overdue() {
        let watch = HandoverWatchdog::default();
        let moving = async {
            for _ in 0..100 {
                begin(&watch, "a");
                tokio::time::sleep(CLAIM_WINDOW * 9 / 10).await;
            }
        };
        tokio::select! {
            biased;
            found = overdue(&watch) => panic!("{found:?}"),
            () = moving => {}
        }
    }

    /// The lock that is due first does not wait for the one that was noted first.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_free_soon_is_looked_at_soon() {
        let watch = HandoverWatchdog::default();
        begin(&watch, "late");
        look_again(&watch, "soon", Duration::from_millis(10));
        assert_eq!(overdue(&watch).await, [key("soon")]);
        assert_eq!(overdue(&watch).await, [key("late")]);
    }

    /// One that stays taken for an hour keeps no other one waiting.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_due_before_the_others_wakes_the_watchdog() {
        let watch = HandoverWatchdog::default();
        look_again(&watch, "nightly", Duration::from_secs(3600));
        let start = Instant::now();
        let begun = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            begin(&watch, "a");
        };
        let (found, ()) = tokio::join!(overdue(&watch), begun);
        assert_eq!(found, [key("a")]);
        assert!(start.elapsed() < 2 * CLAIM_WINDOW + 2 * GRACE);
        assert_eq!(overdue(&watch).await, [key("nightly")]);
    }
}
