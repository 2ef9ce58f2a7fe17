//! When each lease is due. Pure: no clock, no task, no lock.

use crate::clock::Moment;

/// Children of one entry. Four of them fit in one cache line, and the heap is less deep than with
/// two.
const WIDTH: usize = 4;

/// The memory of more slots is given back when there is no entry any more.
const KEPT: usize = 1024;

/// Entries ordered by the moment at which each is due: a heap that knows where each entry is.
///
/// The caller of `insert` keeps the returned slot index. Every operation is O(log n), and O(1) for
/// most leases: an entry that is due after all others is added and removed at the end.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    heap: Vec<Due>,
    slots: Vec<ScheduleSlot<T>>,
    free: Vec<SlotIndex>,
}

/// The slot of an entry.
pub(crate) type SlotIndex = usize;

#[derive(Debug, Clone, Copy)]
struct Due {
    at: Moment,
    place: SlotIndex,
}

#[derive(Debug)]
struct ScheduleSlot<T> {
    /// Distinguishes an entry from earlier ones in its slot.
    id: u64,
    /// The entry's index in the heap.
    position: usize,
    value: Option<T>,
}

impl<T> Schedule<T> {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new(), slots: Vec::new(), free: Vec::new() }
    }

    /// `id` must never be used again.
    pub(crate) fn insert(&mut self, id: u64, at: Moment, value: T) -> SlotIndex {
        let slot = ScheduleSlot { id, position: 0, value: Some(value) };
        let place = if let Some(place) = self.free.pop() {
            self.slots[place] = slot;
            place
        } else {
            self.slots.push(slot);
            self.slots.len() - 1
        };
        self.heap.push(Due { at, place });
        self.rise(self.heap.len() - 1);
        place
    }

    /// Moves an entry. An entry that was removed meanwhile stays removed.
    pub(crate) fn reschedule(&mut self, id: u64, place: SlotIndex, at: Moment) {
        let Some(position) = self.position(id, place) else { return };
        let old = std::mem::replace(&mut self.heap[position].at, at);
        if at < old {
            self.rise(position);
        } else {
            self.sink(position);
        }
    }

    pub(crate) fn remove(&mut self, id: u64, place: SlotIndex) -> Option<T> {
        let position = self.position(id, place)?;
        self.heap.swap_remove(position);
        if position < self.heap.len() {
            // The last entry has its position now. It may be of another branch: it moves up, or
            // down.
            let position = self.rise(position);
            self.sink(position);
        }
        let removed = self.slots[place].value.take();
        if self.heap.is_empty() && self.slots.len() > KEPT {
            self.drain();
        } else {
            self.free.push(place);
        }
        removed
    }

    /// The entry that is due next, and when.
    pub(crate) fn next(&self) -> Option<(Moment, &T)> {
        let Due { at, place } = *self.heap.first()?;
        Some((at, self.slots[place].value.as_ref()?))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    /// Removes all entries.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.heap = Vec::new();
        self.free = Vec::new();
        std::mem::take(&mut self.slots).into_iter().filter_map(|slot| slot.value).collect()
    }

    fn position(&self, id: u64, place: SlotIndex) -> Option<usize> {
        let slot = self.slots.get(place)?;
        (slot.id == id && slot.value.is_some()).then_some(slot.position)
    }

    /// Moves an entry up until its parent is not due after it. Returns its new position.
    fn rise(&mut self, mut position: usize) -> usize {
        let moved = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / WIDTH;
            if self.heap[parent].at <= moved.at {
                break;
            }
            self.put(position, self.heap[parent]);
            position = parent;
        }
        self.put(position, moved);
        position
    }

    /// Moves an entry down until none of its children is due before it.
    fn sink(&mut self, mut position: usize) {
        let moved = self.heap[position];
        loop {
            let first = position * WIDTH + 1;
            let last = (first + WIDTH).min(self.heap.len());
            let Some(child) = (first..last).min_by_key(|&child| self.heap[child].at) else { break };
            if moved.at <= self.heap[child].at {
                break;
            }
            self.put(position, self.heap[child]);
            position = child;
        }
        self.put(position, moved);
    }

    fn put(&mut self, position: usize, due: Due) {
        self.heap[position] = due;
        self.slots[due.place].position = position;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    /// The entry that is due next, if it is due at `now`.
    fn due(schedule: &Schedule<char>, now: u64) -> Option<char> {
        schedule.next().filter(|(due, _)| *due <= at(now)).map(|(_, value)| *value)
    }

    #[test]
    fn the_most_urgent_comes_first_and_only_when_due() {
        let mut schedule = Schedule::new();
        schedule.insert(1, at(30), 'a');
        let place = schedule.insert(2, at(10), 'b');
        assert_eq!((due(&schedule, 9), due(&schedule, 10)), (None, Some('b')));
        schedule.reschedule(2, place, at(40));
        assert_eq!((due(&schedule, 29), due(&schedule, 39)), (None, Some('a')));
    }

    #[test]
    fn a_removed_entry_cannot_come_back() {
        let mut schedule = Schedule::new();
        let place = schedule.insert(1, at(30), 'a');
        assert_eq!(schedule.remove(1, place), Some('a'));
        schedule.reschedule(1, place, at(5));
        assert!(schedule.next().is_none());
        assert_eq!(schedule.remove(1, place), None);
    }

    /// A late removal is for its own entry, not for the one that has its slot now.
    #[test]
    fn a_place_that_was_taken_over_belongs_to_the_new_entry() {
        let mut schedule = Schedule::new();
        let place = schedule.insert(1, at(30), 'a');
        schedule.remove(1, place);
        assert_eq!(schedule.insert(2, at(20), 'b'), place);
        schedule.reschedule(1, place, at(5));
        assert_eq!(schedule.remove(1, place), None);
        assert_eq!(due(&schedule, 19), None);
        assert_eq!(schedule.drain(), ['b']);
        assert_eq!(schedule.insert(3, at(20), 'c'), place);
        assert_eq!((schedule.remove(2, place), due(&schedule, 20)), (None, Some('c')));
    }

    #[test]
    fn the_memory_of_a_crowd_is_given_back_behind_it() {
        let mut schedule = Schedule::new();
        let crowd: Vec<_> =
            (0..=KEPT as u64).map(|id| (id, schedule.insert(id, at(id), id))).collect();
        for (id, place) in &crowd {
            assert!(schedule.slots.capacity() > KEPT);
            assert_eq!(schedule.remove(*id, *place), Some(*id));
        }
        assert_eq!(schedule.slots.capacity() + schedule.heap.capacity(), 0);
        let (id, place) = crowd[KEPT];
        assert_eq!(schedule.remove(id, place), None);
        let place = schedule.insert(9_999, at(1), 9_999);
        assert_eq!(schedule.remove(9_999, place), Some(9_999));
    }

    /// Thousands of steps, each compared with the same step in a sorted map.
    #[test]
    fn the_order_is_that_of_a_sorted_map() {
        let mut random = fastrand::Rng::with_seed(17);
        let (mut schedule, mut sorted) = (Schedule::new(), BTreeMap::new());
        let mut entries: Vec<(u64, SlotIndex, Moment)> = Vec::new();
        for id in 0..20_000 {
            // No two entries have the same moment: their order would be undefined.
            let moment = at(random.u64(..1_000_000) << 16 | id);
            match random.u8(..4) {
                0 | 1 => {
                    entries.push((id, schedule.insert(id, moment, id), moment));
                    sorted.insert(moment, id);
                }
                2 if !entries.is_empty() => {
                    let chosen = random.usize(..entries.len());
                    let (id, place, old) = &mut entries[chosen];
                    schedule.reschedule(*id, *place, moment);
                    sorted.remove(old);
                    sorted.insert(moment, *id);
                    *old = moment;
                }
                3 if !entries.is_empty() => {
                    let (id, place, old) = entries.swap_remove(random.usize(..entries.len()));
                    assert_eq!(schedule.remove(id, place), sorted.remove(&old));
                }
                _ => {}
            }
            assert_eq!(schedule.next(), sorted.first_key_value().map(|(at, id)| (*at, id)));
        }
        assert!(sorted.len() > 1_000 && schedule.values().count() == sorted.len());
        entries.sort_unstable_by_key(|(_, _, at)| *at);
        for (id, place, at) in entries {
            assert_eq!(schedule.next(), Some((at, &id)));
            assert_eq!(schedule.remove(id, place), Some(id));
        }
        assert!(schedule.next().is_none());
    }
}
