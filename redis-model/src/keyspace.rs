//! Keys, their values, and when they expire.

use std::collections::{BTreeMap, VecDeque};

use crate::sorted_set::SortedSet;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A string.
    Text(Vec<u8>),
    /// A list, never empty.
    List(VecDeque<Vec<u8>>),
    /// A sorted set, never empty.
    Sorted(SortedSet),
}

/// The keys of a server. A clone is what a replica has.
#[derive(Debug, Clone, Default)]
pub struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// In ms, on the clock that ends keys.
    pub(crate) now: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    content: Content,
    /// The last millisecond of the key.
    ends: Option<u64>,
}

/// A key holds a value of another type.
#[derive(Debug)]
pub(crate) struct WrongType;

impl Entry {
    /// Redis keeps a key in the millisecond in which it ends.
    fn is_over(&self, now: u64) -> bool {
        self.ends.is_some_and(|ends| now > ends)
    }
}

impl Keyspace {
    /// The value of a key that has not expired.
    pub fn get(&self, key: &[u8]) -> Option<&Content> {
        self.live(key).map(|entry| &entry.content)
    }

    /// The last millisecond of a key; `None`: there is no such key, or it does not expire.
    pub fn ends(&self, key: &[u8]) -> Option<u64> {
        self.live(key)?.ends
    }

    /// Every key that has not expired, in order.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let live = self.entries.iter().filter(|(_, entry)| !entry.is_over(self.now));
        live.map(|(key, _)| key.as_slice())
    }

    /// Removes a key. Was it there?
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let now = self.now;
        self.entries.remove(key).is_some_and(|entry| !entry.is_over(now))
    }

    /// Removes the keys of which `is_meant` is true.
    pub fn remove_all(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        self.entries.retain(|key, _| !is_meant(key));
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8], ends: Option<u64>) {
        let content = Content::Text(value.to_vec());
        self.entries.insert(key.to_vec(), Entry { content, ends });
    }

    /// Sets when a key ends. Is there such a key?
    pub(crate) fn end_at(&mut self, key: &[u8], ends: u64) -> bool {
        let now = self.now;
        let Some(entry) = self.entries.get_mut(key).filter(|entry| !entry.is_over(now)) else {
            return false;
        };
        entry.ends = Some(ends);
        true
    }

    pub(crate) fn text(&self, key: &[u8]) -> Result<Option<&[u8]>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Content::Text(text)) => Ok(Some(text)),
            Some(Content::List(_) | Content::Sorted(_)) => Err(WrongType),
        }
    }

    pub(crate) fn list(&self, key: &[u8]) -> Result<Option<&VecDeque<Vec<u8>>>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Content::List(list)) => Ok(Some(list)),
            Some(Content::Text(_) | Content::Sorted(_)) => Err(WrongType),
        }
    }

    /// Changes a list. `None`: there is none. A list that is empty then is removed.
    pub(crate) fn change_list<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut VecDeque<Vec<u8>>) -> T,
    ) -> Result<Option<T>, WrongType> {
        if self.list(key)?.is_none() {
            return Ok(None);
        }
        let Some(Entry { content: Content::List(list), .. }) = self.entries.get_mut(key) else {
            return Ok(None);
        };
        let changed = change(list);
        if list.is_empty() {
            self.entries.remove(key);
        }
        Ok(Some(changed))
    }

    /// Appends to a list, which is made if there is none. Returns its length.
    pub(crate) fn push(&mut self, key: &[u8], values: &[&[u8]]) -> Result<usize, WrongType> {
        if self.list(key)?.is_none() {
            let content = Content::List(VecDeque::new());
            self.entries.insert(key.to_vec(), Entry { content, ends: None });
        }
        let append = |list: &mut VecDeque<Vec<u8>>| {
            list.extend(values.iter().map(|value| value.to_vec()));
            list.len()
        };
        Ok(self.change_list(key, append)?.unwrap_or_default())
    }

    pub(crate) fn sorted(&self, key: &[u8]) -> Result<Option<&SortedSet>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Content::Sorted(set)) => Ok(Some(set)),
            Some(Content::Text(_) | Content::List(_)) => Err(WrongType),
        }
    }

    /// Changes a sorted set, which is made if there is none. One that is empty then is removed.
    pub(crate) fn change_sorted<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut SortedSet) -> T,
    ) -> Result<T, WrongType> {
        if self.sorted(key)?.is_none() {
            let content = Content::Sorted(SortedSet::default());
            self.entries.insert(key.to_vec(), Entry { content, ends: None });
        }
        let Some(Entry { content: Content::Sorted(set), .. }) = self.entries.get_mut(key) else {
            return Err(WrongType);
        };
        let changed = change(set);
        if set.is_empty() {
            self.entries.remove(key);
        }
        Ok(changed)
    }

    fn live(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| !entry.is_over(self.now))
    }
}
