//! Counts of the releases that are under way, by key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::shield::shielded;

/// How many releases of one sort there are of each key, whatever its kind.
#[derive(Debug, Default)]
pub(super) struct ReleaseCounts {
    of_keys: Mutex<HashMap<Arc<str>, u32>>,
    /// The number of keys: mostly none, which every attempt can see without the mutex.
    keys: AtomicUsize,
    /// Notified when the last release of a key has ended.
    ended: Notify,
}

impl ReleaseCounts {
    pub(super) fn are_any(&self, key: &str) -> bool {
        self.keys.load(Ordering::Acquire) > 0 && self.change(|of_keys| of_keys.contains_key(key))
    }

    /// Waits until there is none of a key.
    pub(super) async fn none_left(&self, key: &str) {
        loop {
            // Before the look: no end is missed after it.
            let ended = self.ended.notified();
            if !self.are_any(key) {
                return;
            }
            ended.await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, u32>) -> T) -> T {
        let mut of_keys = self.of_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut of_keys);
        self.keys.store(of_keys.len(), Ordering::Release);
        changed
    }
}

/// Counts one release of a key until it is dropped.
#[derive(Debug)]
pub(super) struct CountedRelease {
    all: Arc<ReleaseCounts>,
    key: Arc<str>,
}

impl CountedRelease {
    pub(super) fn new(all: &Arc<ReleaseCounts>, key: Arc<str>) -> Self {
        all.change(|of_keys| *of_keys.entry(Arc::clone(&key)).or_default() += 1);
        Self { all: Arc::clone(all), key }
    }
}

impl Drop for CountedRelease {
    fn drop(&mut self) {
        let was_last = self.all.change(|of_keys| match of_keys.get_mut(&self.key) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => of_keys.remove(&self.key).is_some(),
        });
        if was_last {
            shielded(|| self.all.ended.notify_waiters());
        }
    }
}
