use std::collections::{HashMap, HashSet};

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
    assert_eq!(key.counter_key(), "{lock:stock-42}:fence");
    assert_eq!(key.queue_key(), "{lock:stock-42}:queue");
}

#[test]
fn the_helper_key_always_shares_the_hash_tag() {
    for (name, fence) in [
        ("{stock}-42", "lock:{stock}-42::fence"),
        ("a{b", "{lock:a{b}:fence"),
        ("a{}{b}", ""),
        ("a}b{c}d", "lock:a}b{c}d::fence"),
    ] {
        match LockKey::new("lock:", name) {
            Ok(key) => {
                assert_eq!(key.counter_key(), fence);
                let slot = hash_tag(key.redis_key()).unwrap_or(key.redis_key());
                assert_eq!(hash_tag(&key.counter_key()), Some(slot));
            }
            Err(error) => assert_eq!(fence, "", "{error}"),
        }
    }
}

/// Clients with all kinds of prefixes share one server; one prefix is empty.
#[test]
fn no_two_locks_share_a_key_and_no_lock_is_the_helper_of_another() {
    const PARTS: [&str; 16] = [
        "{",
        "}",
        "{}",
        "{x}",
        "",
        "x",
        "y",
        ":",
        "::",
        ":queue",
        ":fence",
        "fence",
        "queue",
        "nodes:fence",
        "nodes:",
        ":mark",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    // The first ones have braces, which a prefix cannot have.
    let mut hostile = |parts: &[&str], most: usize| -> String {
        (0..random.usize(..=most)).map(|_| parts[random.usize(..parts.len())]).collect()
    };
    let mut locks = HashSet::new();
    let mut helpers = HashMap::new();
    let mut marks = HashSet::new();
    for _ in 0..30_000 {
        let prefix = hostile(&PARTS[4..], 3);
        helpers.insert(format!("{prefix}{FOUNDERS_SUFFIX}"), String::new());
        let Ok(key) = LockKey::new(&prefix, &hostile(&PARTS, 4)) else { continue };
        let slot = hash_tag(key.redis_key()).unwrap_or(key.redis_key());
        for helper in [key.counter_key(), key.queue_key()] {
            assert_eq!(hash_tag(&helper), Some(slot), "{helper}");
            let lock = helpers.entry(helper.clone()).or_insert_with(|| key.full.to_string());
            assert_eq!(*lock, *key.full, "both have {helper}");
        }
        let mark = key.mark_key();
        assert_eq!(super::slot(&mark, hash_tag(&mark)), key.slot(), "{mark}");
        locks.insert(key.full.to_string());
        marks.insert(mark);
    }
    assert!(locks.len() > 3_000, "{} locks", locks.len());
    let is_helper = |key: &&String| helpers.contains_key(*key);
    let both = locks.iter().filter(|lock| is_helper(lock) || marks.contains(*lock));
    assert_eq!(both.collect::<Vec<_>>(), [""; 0], "locks that are helper keys");
    assert_eq!(marks.iter().find(is_helper), None, "a mark that is the helper of a lock");
}

#[test]
fn keys_that_cannot_name_a_lock_are_refused() {
    assert_eq!(reason(""), InvalidKeyReason::Empty);
    assert_eq!(reason("a\nb"), InvalidKeyReason::ControlCharacter('\n'));
    assert_eq!(reason("a\0"), InvalidKeyReason::ControlCharacter('\0'));
    assert_eq!(reason(&"x".repeat(1025)), InvalidKeyReason::TooLong(1025));
    assert_eq!(reason("a:fence"), InvalidKeyReason::ReservedSuffix(":fence"));
    assert_eq!(reason("{a}:queue"), InvalidKeyReason::ReservedSuffix(":queue"));
    assert!(LockKey::new("nodes:", "fence").is_err());
    let mailbox = format!("mailbox:{}", crate::owner::random_uuid().simple());
    assert_eq!(reason(&mailbox), InvalidKeyReason::ReservedSuffix("mailbox:<uuid>"));
    assert!(LockKey::new("", &format!("lock:{mailbox}")).is_err(), "of another client");
    assert!(LockKey::new("lock:", &mailbox[..mailbox.len() - 1]).is_ok(), "no such list");
    assert_eq!(reason("a}b"), InvalidKeyReason::UnbalancedBrace);
    assert!(LockKey::new("lock:", &"x".repeat(1024)).is_ok());
    assert!(LockKey::new("lock:", "print:queue").is_ok(), "no queue has this name");
}

#[test]
fn a_long_bad_key_is_cut_in_the_message() {
    let error = LockKey::new("", &"\u{1F512}".repeat(300)).unwrap_err();
    let shown = error.to_string();
    assert!(shown.len() < 600 && shown.contains(&"\u{1F512}".repeat(80)), "{shown}");
}
