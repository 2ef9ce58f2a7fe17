//! The keys of one `lock_all`, in the order in which every client locks them.

use std::collections::BTreeMap;

use super::lock_key::LockKey;
use crate::error::LockError;

/// The most keys that are locked together.
pub(crate) const MOST_KEYS: usize = 256;

/// The keys that `names` stand for, each once, sorted by the bytes of the whole key: the first one,
/// and the further ones.
pub(crate) fn in_order(
    prefix: &str,
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<(LockKey, Vec<LockKey>), LockError> {
    let mut keys = BTreeMap::new();
    for name in names {
        let key = LockKey::new(prefix, name.as_ref())?;
        keys.insert(key.shared(), key);
        if keys.len() > MOST_KEYS {
            return Err(LockError::config(format!(
                "more than {MOST_KEYS} keys are to be locked together; lock something larger, such \
                 as the table or the account they belong to"
            )));
        }
    }
    let mut keys = keys.into_values();
    let Some(first) = keys.next() else {
        return Err(LockError::config("no key was given, and no lock would be taken"));
    };
    Ok((first, keys.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::InvalidKeyReason;

    fn names(given: &[&str]) -> Vec<String> {
        let (first, further) = in_order("lock:", given).unwrap();
        std::iter::once(first).chain(further).map(|key| key.name().to_owned()).collect()
    }

    #[test]
    fn each_key_stands_once_and_bytes_decide_the_order() {
        assert_eq!(names(&["b", "a", "b", "B", "a-10", "a-9"]), ["B", "a", "a-10", "a-9", "b"]);
        assert_eq!(names(&["a", "a"]), ["a"]);
        assert_eq!(names(&["\u{e9}", "z"]), ["z", "\u{e9}"]);
    }

    /// Clients with different prefixes may share keys, and lock them in the same order.
    #[test]
    fn the_order_is_that_of_whole_keys() {
        let whole = |prefix, names: [&str; 2]| {
            let (first, further) = in_order(prefix, names).unwrap();
            [first.redis_key().to_owned(), further[0].redis_key().to_owned()]
        };
        assert_eq!(whole("lock:", ["b", "a"]), whole("", ["lock:a", "lock:b"]));
    }

    #[test]
    fn no_key_too_many_and_a_bad_one_are_errors() {
        let none: [&str; 0] = [];
        assert!(matches!(in_order("", none), Err(LockError::Config { .. })));
        let numbers = |count: usize| (0..count).map(|number| number.to_string());
        assert_eq!(in_order("", numbers(MOST_KEYS)).unwrap().1.len(), MOST_KEYS - 1);
        let error = in_order("", numbers(MOST_KEYS + 1)).unwrap_err();
        assert!(matches!(&error, LockError::Config { .. }), "{error}");
        assert!(in_order("", numbers(MOST_KEYS).chain(numbers(9))).is_ok(), "they are the same");
        let bad = in_order("", ["a", ""]).unwrap_err();
        assert!(matches!(bad, LockError::InvalidKey { reason: InvalidKeyReason::Empty, .. }));
    }
}
