//! The last ones of what came: a memory that cannot grow.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The last keys of one sort, each with what is known of it. Every signal is looked up here, which
/// therefore must not search through all keys.
#[derive(Debug)]
pub(crate) struct LastOnes<K, V> {
    most: usize,
    known: HashMap<K, V>,
    /// The keys in the order in which they came. One that was taken out is still in it.
    order: VecDeque<K>,
}

impl<K: Hash + Eq + Clone, V> LastOnes<K, V> {
    /// `most`: how many are remembered.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, known: HashMap::new(), order: VecDeque::new() }
    }

    /// Remembers a key. `false`: it is remembered already, and keeps its place in the order.
    pub(crate) fn add(&mut self, key: &K, value: V) -> bool {
        if self.known.contains_key(key) {
            return false;
        }
        if self.order.len() == self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.known.insert(key.clone(), value);
        true
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.known.get(key)
    }

    /// Forgets a key, and returns what was known of it.
    pub(crate) fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.known.remove(key)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len().max(self.order.len())
    }
}
