//! When the memory of a crowd that has gone is given back.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

/// So many entries keep their memory.
pub(crate) const KEPT: usize = 1024;

/// Is the memory for `capacity` entries too much for `len` of them? If it is made as small as
/// `2 * len` then, the work for that is shared by the many entries that have gone.
pub(crate) fn is_spare(capacity: usize, len: usize) -> bool {
    capacity > KEPT && len < capacity / 8
}

pub(crate) fn shrink_map<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if is_spare(map.capacity(), map.len()) {
        map.shrink_to(2 * map.len());
    }
}

pub(crate) fn shrink_set<T: Eq + Hash, S: BuildHasher>(set: &mut HashSet<T, S>) {
    if is_spare(set.capacity(), set.len()) {
        set.shrink_to(2 * set.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_shrink_when_a_crowd_has_gone() {
        let mut map: HashMap<usize, usize> = (0..8 * KEPT).map(|key| (key, key)).collect();
        let mut set: HashSet<usize> = map.keys().copied().collect();
        assert!(map.capacity() >= 8 * KEPT && set.capacity() >= 8 * KEPT);
        for key in 1..8 * KEPT {
            map.remove(&key);
            set.remove(&key);
            shrink_map(&mut map);
            shrink_set(&mut set);
        }
        assert!(map.capacity() <= KEPT && set.capacity() <= KEPT);
        assert!(map.contains_key(&0) && set.contains(&0));
    }

    #[test]
    fn what_is_used_or_small_is_no_spare() {
        assert!(is_spare(8 * KEPT, KEPT - 1) && !is_spare(8 * KEPT, KEPT));
        assert!(!is_spare(KEPT, 0));
    }
}
