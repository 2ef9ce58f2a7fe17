//! The releases that are under way, by key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::mutex::Mutex;
use crate::notify_all::NotifyAll;
use crate::spare_memory::shrink_map;

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
    of_keys: HashMap<Arc<str>, OfKey>,
    last: u64,
}

/// The numbers of the releases of one key, in the order in which they began. One alone, as most
/// are, needs no memory of its own.
#[derive(Debug)]
struct OfKey {
    first: u64,
    others: Vec<u64>,
}

impl OfKey {
    /// Forgets one that has ended. Returns whether it was the last one.
    fn forget(&mut self, number: u64) -> bool {
        if number != self.first {
            self.others.retain(|other| *other != number);
            return false;
        }
        if self.others.is_empty() {
            return true;
        }
        self.first = self.others.remove(0);
        false
    }
}

impl ReleaseCounts {
    pub(super) fn are_any(&self, key: &str) -> bool {
        self.keys.load(Ordering::Acquire) > 0 && self.change(|all| all.of_keys.contains_key(key))
    }

    /// Waits until those of a key have ended that are under way now. Others may begin meanwhile.
    pub(super) async fn ends(&self, key: &str) {
        let last = self.change(|all| all.last);
        let have_ended =
            || self.change(|all| all.of_keys.get(key).is_none_or(|of_key| of_key.first > last));
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
            let number = releases.last;
            match releases.of_keys.entry(Arc::clone(&key)) {
                Entry::Occupied(of_key) => of_key.into_mut().others.push(number),
                Entry::Vacant(none) => {
                    none.insert(OfKey { first: number, others: Vec::new() });
                }
            }
            number
        });
        Self { all: Arc::clone(all), key, number }
    }
}

impl Drop for CountedRelease {
    fn drop(&mut self) {
        self.all.change(|Releases { of_keys, .. }| {
            let of_key = of_keys.get_mut(&self.key);
            if of_key.is_some_and(|of_key| of_key.forget(self.number)) {
                of_keys.remove(&self.key);
                shrink_map(of_keys);
            }
        });
        self.all.ended.wake_all();
    }
}
