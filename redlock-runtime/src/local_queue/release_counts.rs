//! The releases that are under way, by key.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::mutex::Mutex;
use crate::notify_all::NotifyAll;

/// The releases of one sort, by key, whatever its kind.
#[derive(Debug, Default)]
pub(super) struct ReleaseCounts {
    releases: Mutex<Releases>,
    /// The number of keys: usually 0, which every attempt can see without the mutex.
    keys: AtomicUsize,
    /// A release has ended.
    ended: NotifyAll,
}

#[derive(Debug, Default)]
struct Releases {
    /// Their numbers, in the order in which they began.
    of_keys: HashMap<Arc<str>, Vec<u64>>,
    last: u64,
}

impl ReleaseCounts {
    pub(super) fn are_any(&self, key: &str) -> bool {
        self.keys.load(Ordering::Acquire) > 0 && self.change(|all| all.of_keys.contains_key(key))
    }

    /// Waits until those of a key have ended that are under way now. Others may begin meanwhile.
    pub(super) async fn ends(&self, key: &str) {
        let last = self.change(|all| all.last);
        let have_ended = || {
            self.change(|all| {
                let numbers = all.of_keys.get(key).and_then(|numbers| numbers.first());
                numbers.is_none_or(|first| *first > last)
            })
        };
        while !have_ended() {
            self.ended.unless(have_ended).await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Releases) -> T) -> T {
        let mut releases = self.releases.lock();
        let changed = change(&mut releases);
        self.keys.store(releases.of_keys.len(), Ordering::Release);
        changed
    }
}

/// Counts one release of a key until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedRelease {
    all: Arc<ReleaseCounts>,
    key: Arc<str>,
    number: u64,
}

impl CountedRelease {
    pub(super) fn new(all: &Arc<ReleaseCounts>, key: Arc<str>) -> Self {
        let number = all.change(|releases| {
            releases.last += 1;
            releases.of_keys.entry(Arc::clone(&key)).or_default().push(releases.last);
            releases.last
        });
        Self { all: Arc::clone(all), key, number }
    }
}

impl Drop for CountedRelease {
    fn drop(&mut self) {
        self.all.change(|Releases { of_keys, .. }| {
            if let Some(numbers) = of_keys.get_mut(&self.key) {
                numbers.retain(|number| *number != self.number);
                if numbers.is_empty() {
                    of_keys.remove(&self.key);
                }
            }
        });
        self.all.ended.tell();
    }
}
