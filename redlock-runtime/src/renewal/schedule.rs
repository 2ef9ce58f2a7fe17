//! What is due when. Pure: no clock, no task, no lock.

use std::collections::{BTreeSet, HashMap};

use crate::clock::Moment;

/// A queue of entries ordered by the moment at which each is due; every operation is O(log n).
#[derive(Debug)]
pub(super) struct Schedule<T> {
    order: BTreeSet<(Moment, u64)>,
    entries: HashMap<u64, (Moment, T)>,
}

impl<T: Clone> Schedule<T> {
    pub(super) fn new() -> Self {
        Self { order: BTreeSet::new(), entries: HashMap::new() }
    }

    pub(super) fn insert(&mut self, id: u64, at: Moment, value: T) {
        self.remove(id);
        self.order.insert((at, id));
        self.entries.insert(id, (at, value));
    }

    /// Moves an entry; one that has been removed meanwhile stays removed.
    pub(super) fn reschedule(&mut self, id: u64, at: Moment) {
        if let Some((old, _)) = self.entries.get_mut(&id) {
            self.order.remove(&(*old, id));
            *old = at;
            self.order.insert((at, id));
        }
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let (at, value) = self.entries.remove(&id)?;
        self.order.remove(&(at, id));
        Some(value)
    }

    /// When the next entry is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.order.first().map(|(at, _)| *at)
    }

    /// One entry that is due, the most urgent first. It stays in place until it is moved.
    pub(super) fn due(&self, now: Moment) -> Option<T> {
        let (_, id) = self.order.first().filter(|(at, _)| *at <= now)?;
        self.entries.get(id).map(|(_, value)| value.clone())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|(_, value)| value)
    }

    /// Takes all entries out.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.order.clear();
        self.entries.drain().map(|(_, (_, value))| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    #[test]
    fn the_most_urgent_comes_first_and_only_when_due() {
        let mut schedule = Schedule::new();
        schedule.insert(1, at(30), 'a');
        schedule.insert(2, at(10), 'b');
        assert_eq!((schedule.next(), schedule.due(at(9))), (Some(at(10)), None));
        assert_eq!(schedule.due(at(10)), Some('b'));
        schedule.reschedule(2, at(40));
        assert_eq!(schedule.due(at(39)), Some('a'));
    }

    #[test]
    fn a_removed_entry_cannot_come_back() {
        let mut schedule = Schedule::new();
        schedule.insert(1, at(30), 'a');
        assert_eq!(schedule.remove(1), Some('a'));
        schedule.reschedule(1, at(5));
        assert_eq!((schedule.due(at(99)), schedule.next()), (None, None));
        assert!(schedule.entries.is_empty());
    }

    #[test]
    fn inserting_twice_keeps_one_entry() {
        let mut schedule = Schedule::new();
        schedule.insert(1, at(30), 'a');
        schedule.insert(1, at(20), 'b');
        assert_eq!(schedule.values().collect::<Vec<_>>(), [&'b']);
        assert_eq!(schedule.drain(), vec!['b']);
        assert_eq!(schedule.next(), None);
    }
}
