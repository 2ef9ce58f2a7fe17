//! The releases that the background thread has still to send. An attempt for the same key over
//! another connection could overtake them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many there are of each key, whatever its kind.
#[derive(Debug, Default)]
pub(super) struct LateReleases {
    of_keys: Mutex<HashMap<Arc<str>, u32>>,
    /// The number of keys: mostly none, which every attempt can see without the mutex.
    keys: AtomicUsize,
}

impl LateReleases {
    pub(super) fn are_any(&self, key: &str) -> bool {
        self.keys.load(Ordering::Acquire) > 0 && self.change(|of_keys| of_keys.contains_key(key))
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
pub(super) struct LateRelease {
    all: Arc<LateReleases>,
    key: Arc<str>,
}

impl LateRelease {
    pub(super) fn new(all: &Arc<LateReleases>, key: Arc<str>) -> Self {
        all.change(|of_keys| *of_keys.entry(Arc::clone(&key)).or_default() += 1);
        Self { all: Arc::clone(all), key }
    }
}

impl Drop for LateRelease {
    fn drop(&mut self) {
        self.all.change(|of_keys| match of_keys.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(of_keys.remove(&self.key)),
        });
    }
}
