//! Odd keys on real servers: typed errors, no injection, one hash slot.

use std::collections::BTreeSet;

use redlock::{InvalidKeyReason as Reason, LockError, NodeErrorKind as Kind, Redlock, redis_lock};

use crate::fault_kit::{assert_unavailable, builder, client, lock_keys, nothing_left};
use crate::support::{Server, eventually, ms, secs};

/// Keys that are words of something else, and still only keys.
const ODD: &[&str] = &[
    " ",
    "a b",
    "'",
    "\"",
    "\\",
    "*",
    "?[a-z]",
    "$5",
    "ü-\u{1F512}-\u{202E}",
    "'); redis.call('FLUSHALL') --",
    "]] redis.call('FLUSHALL') --[[",
    "{tag}",
    "{tag}-rest",
    "a{b",
    "{",
    "{a}{b}",
    "%s%d%n",
    "..\\..",
];

#[redis_lock(key = "<a>-<b>", client = redlock)]
async fn pair(redlock: &Redlock, a: &str, b: &str) -> Result<String, LockError> {
    Ok(redlock.held().iter().map(|held| held.redis_key().to_owned()).collect())
}

#[track_caller]
fn reason<T: std::fmt::Debug>(outcome: Result<T, LockError>) -> Reason {
    match outcome {
        Err(LockError::InvalidKey { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn what_cannot_be_a_key_never_reaches_the_server() {
    let server = Server::start().await;
    let (redlock, _) = client(&server.url()).await;
    let before = server.raw().info("total_commands_processed").await.parse::<u64>().unwrap();
    for (key, expected) in [
        ("", Reason::Empty),
        ("a\r\nFLUSHALL\r\n", Reason::ControlCharacter('\r')),
        ("a\nb", Reason::ControlCharacter('\n')),
        ("\0", Reason::ControlCharacter('\0')),
        ("\u{7f}", Reason::ControlCharacter('\u{7f}')),
        (&"x".repeat(1025), Reason::TooLong(1025)),
        ("a:fence", Reason::ReservedSuffix(":fence")),
        ("a}b", Reason::UnbalancedBrace),
        // Redis hashes all of it, so no helper key could follow.
        ("{}x{y}", Reason::UnbalancedBrace),
    ] {
        assert_eq!(reason(redlock.lock(key).acquire().await.map(drop)), expected);
    }
    for (a, b, expected) in [
        ("", "1", Reason::EmptyValue("a")),
        ("1", "", Reason::EmptyValue("b")),
        ("1", "2\r\nDEL x", Reason::ControlCharacter('\r')),
        ("\0", "1", Reason::ControlCharacter('\0')),
        ("1", &"x".repeat(1023), Reason::TooLong(1025)),
    ] {
        assert_eq!(reason(pair(&redlock, a, b).await), expected);
    }
    let after = server.raw().info("total_commands_processed").await.parse::<u64>().unwrap();
    // The second look: its own INFO, and what greets it.
    assert!(after - before <= 8, "{} commands", after - before);
}

#[tokio::test]
async fn odd_keys_lock_exactly_themselves() {
    let server = Server::start().await;
    let raw = server.raw();
    raw.cmd(&["SET", "precious", "1"]).await;
    let (redlock, prefix) = client(&server.url()).await;
    let longest = "x".repeat(1024);
    for name in ODD.iter().copied().chain([longest.as_str()]) {
        let guard = redlock.lock(name).acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(raw.get(&format!("{prefix}{name}")).await.as_deref(), Some(guard.owner()));
        let mut keys = lock_keys(&raw, &prefix).await;
        keys.retain(|key| !key.ends_with(":fence"));
        assert_eq!(keys, [format!("{prefix}{name}")]);
        guard.release().await.unwrap();
        assert_eq!(raw.get(&format!("{prefix}{name}")).await, None);
    }
    assert_eq!(raw.get("precious").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn odd_values_never_share_a_key() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let mut keys = BTreeSet::new();
    let values = ["1", "-", "1-", "-1", "{x}", "}", "%2D", "a b", "é", "'"];
    for a in values {
        for b in values {
            let key = pair(&redlock, a, b).await.unwrap();
            assert!(!key.contains(['{', '}']), "a value chose the hash slot: {key}");
            assert!(keys.insert(key), "{a:?} and {b:?} share a key");
        }
    }
    nothing_left(&server.raw(), &prefix, secs(5)).await;
}

/// Without a prefix, the key of one lock can be the hash tag of another.
#[tokio::test]
async fn a_release_hands_nothing_to_waiters_of_another_lock() {
    let server = Server::start().await;
    let client = || async { Redlock::builder().url(server.url()).prefix("").build().await };
    let (holder, waiter) = (client().await.unwrap(), client().await.unwrap());
    let raw = server.raw();
    for (name, other, queue) in [("x", "{x}", "{x}:queue"), ("{x}", "x", "{x}::queue")] {
        for _ in 0..10 {
            let held = holder.lock(name).acquire().await.unwrap();
            let released = holder.lock(other).acquire().await.unwrap();
            let mut waits = tokio::spawn(waiter.lock(name).wait(secs(60)).acquire());
            eventually(secs(60), || async { raw.int(&["LLEN", queue]).await == 1 }).await;
            released.release().await.unwrap();
            let granted = tokio::time::timeout(ms(50), &mut waits).await;
            assert!(granted.is_err(), "two holders of {name}");
            held.check().unwrap();
            held.release().await.unwrap();
            waits.await.unwrap().unwrap().release().await.unwrap();
        }
    }
}

/// A cluster of one server, which checks the slots of all keys of a script.
async fn cluster() -> Server {
    let server = Server::builder().cluster().start().await;
    server.raw().add_slots(0, 16_383).await;
    server
}

/// A client of this server alone, which does not ask at startup whether it belongs to a cluster.
async fn unchecked(server: &Server) -> (Redlock, String) {
    let (builder, prefix) = builder(&server.url());
    (builder.lazy().build().await.unwrap(), prefix)
}

#[tokio::test]
async fn all_keys_of_a_lock_are_in_one_slot() {
    let server = cluster().await;
    let raw = server.raw();
    let (redlock, prefix) = unchecked(&server).await;
    eventually(secs(20), || async { redlock.lock("up").try_acquire().await.map(drop) }).await;
    for name in ODD {
        let guard = redlock.lock(name).acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        guard.release().await.unwrap();
    }
    let slot = |key: String| {
        let raw = &raw;
        async move { raw.int(&["CLUSTER", "KEYSLOT", &key]).await }
    };
    let (mut marks, mut locks) = (BTreeSet::new(), BTreeSet::new());
    // The first guard was released in the background.
    let is_mark = |key: &String| key.ends_with(":mark:fence");
    eventually(secs(8), || async { raw.keys("*").await.iter().all(is_mark) }).await;
    for mark in raw.keys("*").await {
        assert!(marks.insert(slot(mark).await), "one mark for a slot");
    }
    for name in ODD.iter().chain(&["up"]) {
        locks.insert(slot(format!("{prefix}{name}")).await);
    }
    assert_eq!(marks, locks);
}

#[tokio::test]
async fn a_cluster_that_is_down_is_said_to_be() {
    let server = Server::builder().cluster().start().await;
    let (redlock, _) = unchecked(&server).await;
    let error = redlock.lock("k").try_acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::Cluster);
}

/// It would renew several leases with one script, whose keys are in several slots.
#[tokio::test]
async fn a_client_of_one_server_of_a_cluster_is_not_built() {
    let server = cluster().await;
    let error = Redlock::connect(server.url()).await.unwrap_err();
    assert_unavailable(&error, Kind::Cluster);
    assert!(error.to_string().contains("`.cluster(urls)`"), "{error}");
    let whole = Redlock::builder().cluster([server.url()]);
    eventually(secs(20), || async { whole.clone().build().await.map(drop) }).await;
}
