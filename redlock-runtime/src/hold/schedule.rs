//! When each lease is due. Pure: no clock, no task, no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::clock::Moment;
use crate::spare_memory::is_spare;

/// Children of one entry. Four of them fit in one cache line, and the heap is less deep than with
/// two.
const WIDTH: usize = 4;

/// Entries ordered by the moment at which each is due: a heap whose entries know where they are.
///
/// Every operation is O(log n), and O(1) for most leases: an entry that is due after all others is
/// added and removed at the end.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    heap: Vec<Due<T>>,
}

#[derive(Debug)]
struct Due<T> {
    at: Moment,
    entry: Arc<T>,
}

/// What can be an entry of one schedule.
pub(crate) trait Scheduled {
    fn heap_index(&self) -> &HeapIndex;
}

/// The index of an entry in the heap, if it is there. Used under the mutex of the schedule only.
#[derive(Debug, Default)]
pub(crate) struct HeapIndex(AtomicUsize);

impl<T: Scheduled> Schedule<T> {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new() }
    }

    pub(crate) fn insert(&mut self, at: Moment, entry: Arc<T>) {
        self.heap.push(Due { at, entry });
        self.rise(self.heap.len() - 1);
    }

    /// Moves an entry. An entry that was removed meanwhile stays removed.
    pub(crate) fn reschedule(&mut self, entry: &T, at: Moment) {
        let Some(position) = self.position(entry) else { return };
        let old = std::mem::replace(&mut self.heap[position].at, at);
        if at < old {
            self.rise(position);
        } else {
            self.sink(position);
        }
    }

    pub(crate) fn remove(&mut self, entry: &T) -> Option<Arc<T>> {
        let position = self.position(entry)?;
        let removed = self.heap.swap_remove(position).entry;
        if position < self.heap.len() {
            // The last entry has its position now. It may be of another branch: it moves up, or
            // down.
            let position = self.rise(position);
            self.sink(position);
        }
        if is_spare(self.heap.capacity(), self.heap.len()) {
            self.heap.shrink_to(2 * self.heap.len());
        }
        Some(removed)
    }

    /// The entry that is due next, and when.
    pub(crate) fn next(&self) -> Option<(Moment, &Arc<T>)> {
        self.heap.first().map(|due| (due.at, &due.entry))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<T>> {
        self.heap.iter().map(|due| &due.entry)
    }

    /// Removes all entries.
    pub(crate) fn drain(&mut self) -> Vec<Arc<T>> {
        std::mem::take(&mut self.heap).into_iter().map(|due| due.entry).collect()
    }

    /// An entry that was removed may still have the index of another one.
    fn position(&self, entry: &T) -> Option<usize> {
        let position = entry.heap_index().0.load(Ordering::Relaxed);
        let there = self.heap.get(position)?;
        std::ptr::eq(Arc::as_ptr(&there.entry), entry).then_some(position)
    }

    /// Moves an entry up until its parent is not due after it. Returns its new position.
    fn rise(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / WIDTH;
            if self.heap[parent].at <= self.heap[position].at {
                break;
            }
            self.heap.swap(parent, position);
            self.note(position);
            position = parent;
        }
        self.note(position);
        position
    }

    /// Moves an entry down until none of its children is due before it.
    fn sink(&mut self, mut position: usize) {
        loop {
            let first = position * WIDTH + 1;
            let last = (first + WIDTH).min(self.heap.len());
            let Some(child) = (first..last).min_by_key(|&child| self.heap[child].at) else { break };
            if self.heap[position].at <= self.heap[child].at {
                break;
            }
            self.heap.swap(position, child);
            self.note(position);
            position = child;
        }
        self.note(position);
    }

    /// Tells the entry at this position where it is.
    fn note(&self, position: usize) {
        self.heap[position].entry.heap_index().0.store(position, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::spare_memory::KEPT;

    #[derive(Debug, Default)]
    struct Entry {
        name: u64,
        index: HeapIndex,
    }

    impl Scheduled for Entry {
        fn heap_index(&self) -> &HeapIndex {
            &self.index
        }
    }

    fn entry(name: u64) -> Arc<Entry> {
        Arc::new(Entry { name, ..Entry::default() })
    }

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    /// The entry that is due next, if it is due at `now`.
    fn due(schedule: &Schedule<Entry>, now: u64) -> Option<u64> {
        schedule.next().filter(|(due, _)| *due <= at(now)).map(|(_, entry)| entry.name)
    }

    #[test]
    fn the_most_urgent_comes_first_and_only_when_due() {
        let mut schedule = Schedule::new();
        let (first, second) = (entry(1), entry(2));
        schedule.insert(at(30), first);
        schedule.insert(at(10), Arc::clone(&second));
        assert_eq!((due(&schedule, 9), due(&schedule, 10)), (None, Some(2)));
        schedule.reschedule(&second, at(40));
        assert_eq!((due(&schedule, 29), due(&schedule, 39)), (None, Some(1)));
    }

    #[test]
    fn a_removed_entry_cannot_come_back() {
        let mut schedule = Schedule::new();
        let entry = entry(1);
        schedule.insert(at(30), Arc::clone(&entry));
        assert_eq!(schedule.remove(&entry).unwrap().name, 1);
        schedule.reschedule(&entry, at(5));
        assert!(schedule.next().is_none());
        assert!(schedule.remove(&entry).is_none());
    }

    /// A late removal is for its own entry, not for the one that has its position now.
    #[test]
    fn a_position_that_was_taken_over_belongs_to_the_new_entry() {
        let mut schedule = Schedule::new();
        let (old, new) = (entry(1), entry(2));
        schedule.insert(at(30), Arc::clone(&old));
        schedule.remove(&old);
        schedule.insert(at(20), Arc::clone(&new));
        schedule.reschedule(&old, at(5));
        assert!(schedule.remove(&old).is_none());
        assert_eq!(due(&schedule, 19), None);
        assert_eq!(schedule.drain().len(), 1);
        schedule.insert(at(20), entry(3));
        assert!(schedule.remove(&new).is_none());
        assert_eq!(due(&schedule, 20), Some(3));
    }

    #[test]
    fn the_memory_of_a_crowd_is_given_back_though_one_stays() {
        let mut schedule = Schedule::new();
        let crowd: Vec<_> = (0..=4 * KEPT as u64).map(entry).collect();
        for entry in &crowd {
            schedule.insert(at(entry.name), Arc::clone(entry));
        }
        assert!(schedule.heap.capacity() > 4 * KEPT);
        for entry in &crowd[1..] {
            assert_eq!(schedule.remove(entry).unwrap().name, entry.name);
        }
        assert!(schedule.heap.capacity() <= KEPT);
        assert_eq!(due(&schedule, 0), Some(0));
    }

    /// Thousands of steps, each compared with the same step in a sorted map.
    #[test]
    fn the_order_is_that_of_a_sorted_map() {
        let mut random = fastrand::Rng::with_seed(17);
        let (mut schedule, mut sorted) = (Schedule::new(), BTreeMap::new());
        let mut entries: Vec<(Arc<Entry>, Moment)> = Vec::new();
        for name in 0..20_000 {
            // No two entries have the same moment: their order would be undefined.
            let moment = at(random.u64(..1_000_000) << 16 | name);
            match random.u8(..4) {
                0 | 1 => {
                    let entry = entry(name);
                    schedule.insert(moment, Arc::clone(&entry));
                    entries.push((entry, moment));
                    sorted.insert(moment, name);
                }
                2 if !entries.is_empty() => {
                    let chosen = random.usize(..entries.len());
                    let (entry, old) = &mut entries[chosen];
                    schedule.reschedule(entry, moment);
                    sorted.remove(old);
                    sorted.insert(moment, entry.name);
                    *old = moment;
                }
                3 if !entries.is_empty() => {
                    let (entry, old) = entries.swap_remove(random.usize(..entries.len()));
                    let removed = schedule.remove(&entry).map(|entry| entry.name);
                    assert_eq!(removed, sorted.remove(&old));
                }
                _ => {}
            }
            let next = schedule.next().map(|(at, entry)| (at, entry.name));
            assert_eq!(next, sorted.first_key_value().map(|(at, name)| (*at, *name)));
        }
        assert!(sorted.len() > 1_000 && schedule.entries().count() == sorted.len());
        entries.sort_unstable_by_key(|(_, at)| *at);
        for (entry, at) in entries {
            assert_eq!(schedule.next().map(|(at, entry)| (at, entry.name)), Some((at, entry.name)));
            assert!(schedule.remove(&entry).is_some());
        }
        assert!(schedule.next().is_none());
    }
}
