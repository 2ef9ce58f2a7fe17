//! The keys of a hold: one, or the several of a `lock_all`.

use std::sync::Weak;

use crate::backend::Claim;
use crate::hold::{FurtherKeys, Hold};

impl Hold {
    /// The same hold, of further keys as well.
    pub(crate) fn with_further(mut self, further: FurtherKeys) -> Self {
        self.further = Some(Box::new(further));
        self
    }

    /// What it holds, a claim for each key, in the order of keys.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        let further = self.further.as_ref().map_or(&[][..], |further| &further.claims);
        std::iter::once(&self.claim).chain(further)
    }

    /// The first key, and the last one if there are several, without the prefix of the client.
    pub(crate) fn first_and_last(&self) -> impl Iterator<Item = &str> {
        let last = self.further.iter().filter_map(|further| further.claims.last());
        std::iter::once(&self.claim).chain(last).map(|claim| claim.key.name())
    }

    pub(crate) fn key_count(&self) -> usize {
        1 + self.further.as_ref().map_or(0, |further| further.claims.len())
    }

    /// Is `name`, a key without the prefix of the client, one of its keys?
    pub(crate) fn has_key(&self, name: &str) -> bool {
        self.claims().any(|claim| claim.key.name() == name)
    }

    /// The keys without the prefix of the client.
    pub(crate) fn key_names(&self) -> &[String] {
        let names = || self.claims().map(|claim| claim.key.name().to_owned()).collect();
        self.key_names.get_or_init(|| Box::new(names()))
    }

    /// The keys, if there are several.
    pub(crate) fn several_names(&self) -> Option<&[String]> {
        self.further.as_ref().map(|_| self.key_names())
    }

    /// The key with this index, or the first.
    pub(in crate::hold) fn key_at(&self, key_index: usize) -> &str {
        self.claims().nth(key_index).unwrap_or(&self.claim).key.name()
    }

    /// Wakes waiters of this process, for each of its keys.
    pub(in crate::hold) fn tell_listeners(&self) {
        let further = self.further.iter().flat_map(|further| &further.listeners);
        let listeners = std::iter::once(&self.listener).chain(further);
        for listener in listeners.filter_map(Weak::upgrade) {
            listener.lock_lost();
        }
    }
}
