//! The last ones of what came: a memory that cannot grow.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The last keys of one sort, each with what is known of it. Every signal is looked up here, which
/// therefore must not search through all keys.
#[derive(Debug)]
pub(crate) struct LastOnes<K, V> {
    most: usize,
    /// With the number that each key got when it came.
    known: HashMap<K, (u64, V)>,
    /// The keys in the order in which they came. One that was taken out is still in it, and may
    /// have come again, with another number.
    order: VecDeque<(u64, K)>,
    last: u64,
}

impl<K: Hash + Eq + Clone, V> LastOnes<K, V> {
    /// `most`: how many are remembered.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, known: HashMap::new(), order: VecDeque::new(), last: 0 }
    }

    /// Remembers a key. `false`: it is remembered already, and keeps its place in the order.
    pub(crate) fn add(&mut self, key: &K, value: V) -> bool {
        if self.known.contains_key(key) {
            return false;
        }
        if self.order.len() == self.most
            && let Some((number, oldest)) = self.order.pop_front()
            && self.known.get(&oldest).is_some_and(|(latest, _)| *latest == number)
        {
            self.known.remove(&oldest);
        }
        self.last += 1;
        self.order.push_back((self.last, key.clone()));
        self.known.insert(key.clone(), (self.last, value));
        true
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.known.get(key).map(|(_, value)| value)
    }

    /// Forgets a key, and returns what was known of it.
    pub(crate) fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.known.remove(key).map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len().max(self.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_again_is_one_of_the_last() {
        let mut ones = LastOnes::new(2);
        assert!(ones.add(&1, "first") && ones.take(&1) == Some("first"));
        assert!(ones.add(&1, "again") && ones.add(&2, "next"));
        assert_eq!((ones.get(&1), ones.get(&2)), (Some(&"again"), Some(&"next")));
        assert!(ones.add(&3, "last"));
        assert_eq!((ones.get(&1), ones.get(&2)), (None, Some(&"next")));
    }
}
