//! A checked key with its prefix, and the names of its helper keys.

use std::fmt;
use std::sync::Arc;

use super::slot::{hash_tag, push_in_slot, slot};
use crate::error::{InvalidKeyReason, LockError};
use crate::{foreign_text, shared_text};

/// The longest key in bytes, without the prefix. A long key costs the server time on every command.
const MAX_LENGTH: usize = 1024;
/// The suffix of the fencing counter, the helper key that holds the last reserved fencing token.
const COUNTER_SUFFIX: &str = ":fence";
/// The end of the mark's key, after a hash tag that leads to a slot.
const MARK_SUFFIX: &str = ":mark:fence";
/// The suffix of the helper key that holds the queue of waiting processes.
const QUEUE_SUFFIX: &str = ":queue";
/// The suffix of the helper key that holds the readers, or the holders of permits.
const HOLDERS_SUFFIX: &str = ":holders";
/// What the mark, the counter and the queue of a lock have besides the key and its prefix.
const HELPERS_LENGTH: usize =
    "{000000}".len() + MARK_SUFFIX.len() + "{}:fence".len() + "{}:queue".len();
/// Begins the end of a mailbox's key; a UUID without hyphens follows.
pub(crate) const MAILBOX: &str = "mailbox:";
const UUID_LENGTH: usize = 32;
/// The end of the key of the founders, which has no hash tag of its own.
pub(crate) const FOUNDERS_SUFFIX: &str = "nodes:fence";

/// A valid key of a lock: the prefix of the client, then the name that the user gave.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LockKey {
    full: Arc<str>,
    prefix_length: u32,
    /// What follows from the key, as each command needs it.
    slot: u16,
    has_tag: bool,
}

impl LockKey {
    /// `prefix`: that of a client, which has been checked, and has no brace.
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Self, LockError> {
        let full = shared_text::join([prefix, name]);
        let tag = hash_tag(&full);
        if let Some(reason) = objection(name).or_else(|| conflict(&full, tag)) {
            return Err(LockError::InvalidKey { key: excerpt(name), reason });
        }
        let (slot, has_tag) = (slot(&full, tag), tag.is_some());
        // A prefix is short.
        let prefix_length = u32::try_from(prefix.len()).unwrap_or(u32::MAX);
        Ok(Self { full, prefix_length, slot, has_tag })
    }

    fn prefix(&self) -> &str {
        &self.full[..self.prefix_length as usize]
    }

    /// The key as the user wrote it.
    pub(crate) fn name(&self) -> &str {
        &self.full[self.prefix_length as usize..]
    }

    /// The key in Redis.
    pub(crate) fn redis_key(&self) -> &str {
        &self.full
    }

    /// The key in Redis, shared.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.full)
    }

    /// Its hash slot, if the server is a cluster.
    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    /// The key, and its helper keys that commands name.
    pub(crate) fn with_helpers(&self) -> WithHelpers<'_> {
        let mut helpers = String::with_capacity(3 * self.full.len() + HELPERS_LENGTH);
        self.push_mark(&mut helpers);
        let mark_end = helpers.len();
        self.push_counter(&mut helpers);
        let counter_end = helpers.len();
        self.push_queue(&mut helpers);
        WithHelpers { lock: &self.full, helpers, mark_end, counter_end }
    }

    /// Appends the key of the fencing mark.
    pub(crate) fn push_mark(&self, names: &mut String) {
        push_in_slot(names, self.slot, self.prefix(), MARK_SUFFIX);
    }

    /// Appends the key of the fencing counter.
    pub(crate) fn push_counter(&self, names: &mut String) {
        self.push_helper(names, COUNTER_SUFFIX);
    }

    /// Appends the key of the queue.
    pub(crate) fn push_queue(&self, names: &mut String) {
        self.push_helper(names, QUEUE_SUFFIX);
    }

    /// The key of the fencing mark, which all locks of a hash slot and a prefix share.
    pub(crate) fn mark_key(&self) -> String {
        let mut mark = String::new();
        self.push_mark(&mut mark);
        mark
    }

    /// The key of the fencing counter, in the same hash slot.
    pub(crate) fn counter_key(&self) -> String {
        self.helper_key(COUNTER_SUFFIX)
    }

    /// The key of the queue, in the same hash slot.
    pub(crate) fn queue_key(&self) -> String {
        self.helper_key(QUEUE_SUFFIX)
    }

    /// The key of those who hold a lock of a shared kind, in the same hash slot. The scripts derive
    /// it from that of the queue.
    pub(crate) fn holders_key(&self) -> String {
        self.helper_key(HOLDERS_SUFFIX)
    }

    fn helper_key(&self, suffix: &str) -> String {
        let mut name = String::with_capacity(self.full.len() + 2 + suffix.len());
        self.push_helper(&mut name, suffix);
        name
    }

    /// No two lock keys share a helper key. Where the key has a tag of its own, two colons follow:
    /// `{stock}::fence` belongs to the key `{stock}`, and `{stock}:fence` to `stock`.
    fn push_helper(&self, names: &mut String, suffix: &str) {
        let key = &*self.full;
        let parts = if self.has_tag { ["", key, ":", suffix] } else { ["{", key, "}", suffix] };
        for part in parts {
            names.push_str(part);
        }
    }
}

/// The key of the fencing mark of a hash slot.
#[cfg(feature = "cluster")]
pub(crate) fn mark_of_slot(prefix: &str, slot: u16) -> String {
    let mut mark = String::new();
    push_in_slot(&mut mark, slot, prefix, MARK_SUFFIX);
    mark
}

/// A key, and those of its mark, its counter and its queue. All helper keys are in one text: one
/// allocation costs each command less than three.
pub(crate) struct WithHelpers<'a> {
    lock: &'a str,
    helpers: String,
    mark_end: usize,
    counter_end: usize,
}

impl WithHelpers<'_> {
    /// The key, the mark, the counter, the queue.
    pub(crate) fn names(&self) -> [&str; 4] {
        let (mark, others) = self.helpers.split_at(self.mark_end);
        let (counter, queue) = others.split_at(self.counter_end - self.mark_end);
        [self.lock, mark, counter, queue]
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.full, f)
    }
}

fn objection(name: &str) -> Option<InvalidKeyReason> {
    match name.chars().find(|c| c.is_control()) {
        _ if name.is_empty() => Some(InvalidKeyReason::Empty),
        _ if name.len() > MAX_LENGTH => Some(InvalidKeyReason::TooLong(name.len())),
        Some(c) => Some(InvalidKeyReason::ControlCharacter(c)),
        None => reserved(name, &[COUNTER_SUFFIX]),
    }
}

fn reserved(key: &str, suffixes: &[&'static str]) -> Option<InvalidKeyReason> {
    let suffix = suffixes.iter().copied().find(|suffix| key.ends_with(suffix))?;
    Some(InvalidKeyReason::ReservedSuffix(suffix))
}

/// Why a key cannot be that of a lock, its prefix included. Without a hash tag it may end like a
/// helper key, as these have one, except that of the founders; `objection` refuses `:fence` all the
/// same. And it needs helper keys in its own slot.
fn conflict(full: &str, tag: Option<&str>) -> Option<InvalidKeyReason> {
    if is_mailbox(full) {
        return Some(InvalidKeyReason::ReservedSuffix("mailbox:<uuid>"));
    }
    match tag {
        Some(_) => reserved(full, &[COUNTER_SUFFIX, QUEUE_SUFFIX, HOLDERS_SUFFIX]),
        None if full.contains('}') => Some(InvalidKeyReason::UnbalancedBrace),
        None => reserved(full, &[FOUNDERS_SUFFIX]),
    }
}

/// Could a client of a pool use a list of this name as its mailbox?
fn is_mailbox(full: &str) -> bool {
    let Some((head, uuid)) = full.split_at_checked(full.len().saturating_sub(UUID_LENGTH)) else {
        return false;
    };
    head.ends_with(MAILBOX) && uuid.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Enough of a bad key to find where it comes from.
pub(super) fn excerpt(name: &str) -> String {
    foreign_text::cut_after(80, name)
}

#[cfg(test)]
mod tests;
