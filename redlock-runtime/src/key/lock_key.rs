//! A key that has been checked, with its prefix.

use std::fmt;
use std::sync::Arc;

use crate::error::{InvalidKeyReason, LockError};

/// The longest key in bytes, without the prefix. A long key costs the server time on every command.
const MAX_LENGTH: usize = 1024;
/// The suffix of the helper key that holds the last fencing token.
const FENCE_SUFFIX: &str = ":fence";
/// The suffix of the helper key that holds the line of those who wait.
const QUEUE_SUFFIX: &str = ":queue";

/// A valid key of a lock: the name that the user gave, behind the prefix of the client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LockKey {
    full: Arc<str>,
    prefix_length: usize,
}

impl LockKey {
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Self, LockError> {
        check(name).map_err(|reason| LockError::InvalidKey { key: excerpt(name), reason })?;
        let full: Arc<str> = [prefix, name].concat().into();
        let reason = match hash_tag(&full) {
            None if full.contains('}') => Some(InvalidKeyReason::UnbalancedBrace),
            // It could be the line of another lock. Without a tag it cannot: a line has one.
            Some(_) if name.ends_with(QUEUE_SUFFIX) => {
                Some(InvalidKeyReason::ReservedSuffix(QUEUE_SUFFIX))
            }
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(LockError::InvalidKey { key: excerpt(name), reason });
        }
        Ok(Self { full, prefix_length: prefix.len() })
    }

    /// The key as the user wrote it.
    pub(crate) fn name(&self) -> &str {
        &self.full[self.prefix_length..]
    }

    /// The key as it stands in Redis.
    pub(crate) fn redis_key(&self) -> &str {
        &self.full
    }

    /// The same, shared.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.full)
    }

    /// The key of the fencing counter, in the same hash slot.
    pub(crate) fn fence_key(&self) -> String {
        self.helper_key(FENCE_SUFFIX)
    }

    /// The key of the line, in the same hash slot.
    pub(crate) fn queue_key(&self) -> String {
        self.helper_key(QUEUE_SUFFIX)
    }

    fn helper_key(&self, suffix: &str) -> String {
        match hash_tag(&self.full) {
            Some(_) => [&*self.full, suffix].concat(),
            None => ["{", &*self.full, "}", suffix].concat(),
        }
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.full, f)
    }
}

fn check(name: &str) -> Result<(), InvalidKeyReason> {
    if name.is_empty() {
        return Err(InvalidKeyReason::Empty);
    }
    if name.len() > MAX_LENGTH {
        return Err(InvalidKeyReason::TooLong(name.len()));
    }
    if let Some(c) = name.chars().find(|c| c.is_control()) {
        return Err(InvalidKeyReason::ControlCharacter(c));
    }
    if name.ends_with(FENCE_SUFFIX) {
        return Err(InvalidKeyReason::ReservedSuffix(FENCE_SUFFIX));
    }
    Ok(())
}

/// The part of a key that Redis Cluster hashes, by the rule of the cluster specification: between
/// the first `{` and the first `}` behind it, when that is not empty.
fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// Enough of a bad key to find where it comes from.
pub(super) fn excerpt(name: &str) -> String {
    const SHOWN: usize = 80;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(name: &str) -> InvalidKeyReason {
        match LockKey::new("lock:", name) {
            Err(LockError::InvalidKey { reason, .. }) => reason,
            other => panic!("{name:?}: {other:?}"),
        }
    }

    #[test]
    fn a_good_key_keeps_its_name_and_gets_the_prefix() {
        let key = LockKey::new("lock:", "stock-42").unwrap();
        assert_eq!((key.name(), key.redis_key()), ("stock-42", "lock:stock-42"));
        assert_eq!(key.fence_key(), "{lock:stock-42}:fence");
        assert_eq!(key.queue_key(), "{lock:stock-42}:queue");
    }

    #[test]
    fn the_helper_key_always_shares_the_hash_tag() {
        for (name, fence) in [
            ("{stock}-42", "lock:{stock}-42:fence"),
            ("a{b", "{lock:a{b}:fence"),
            ("a{}{b}", ""),
            ("a}b{c}d", "lock:a}b{c}d:fence"),
        ] {
            match LockKey::new("lock:", name) {
                Ok(key) => {
                    assert_eq!(key.fence_key(), fence);
                    let slot = hash_tag(key.redis_key()).unwrap_or(key.redis_key());
                    assert_eq!(hash_tag(&key.fence_key()), Some(slot));
                }
                Err(error) => assert_eq!(fence, "", "{error}"),
            }
        }
    }

    #[test]
    fn keys_that_cannot_name_a_lock_are_refused() {
        assert_eq!(reason(""), InvalidKeyReason::Empty);
        assert_eq!(reason("a\nb"), InvalidKeyReason::ControlCharacter('\n'));
        assert_eq!(reason("a\0"), InvalidKeyReason::ControlCharacter('\0'));
        assert_eq!(reason(&"x".repeat(1025)), InvalidKeyReason::TooLong(1025));
        assert_eq!(reason("a:fence"), InvalidKeyReason::ReservedSuffix(":fence"));
        assert_eq!(reason("{a}:queue"), InvalidKeyReason::ReservedSuffix(":queue"));
        assert_eq!(reason("a}b"), InvalidKeyReason::UnbalancedBrace);
        assert!(LockKey::new("lock:", &"x".repeat(1024)).is_ok());
        assert!(LockKey::new("lock:", "print:queue").is_ok(), "no line is called like this");
    }

    #[test]
    fn a_long_bad_key_is_cut_in_the_message() {
        let error = LockKey::new("", &"\u{1F512}".repeat(300)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.len() < 600 && shown.contains(&"\u{1F512}".repeat(80)), "{shown}");
    }
}
