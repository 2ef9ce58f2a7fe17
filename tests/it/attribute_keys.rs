//! `keys`: several keys in one attribute.

use std::sync::Mutex;

use redlock::{Lease, LockError, Redlock, redis_lock};

use crate::clients::{client, global, raw};

/// The keys that the task holds, once each was seen in Redis.
async fn keys_here() -> Vec<String> {
    let lease = Lease::current().expect("called inside of a locked body");
    let prefix = lease.redis_key().strip_suffix(lease.key()).expect("its first key").to_owned();
    for key in lease.keys() {
        assert!(raw().await.get(&format!("{prefix}{key}")).await.is_some(), "{key} in Redis");
    }
    lease.keys().to_vec()
}

#[redis_lock(keys = ["acct-<from>", "acct-<to>"])]
async fn templates(from: u64, to: u64) -> Result<Vec<String>, LockError> {
    Ok(keys_here().await)
}

const LEDGER: &str = "ledger";

#[redis_lock(keys = ["acct-<id>", LEDGER, format!("day-{day}")])]
async fn mixed(id: &str, day: u32) -> Result<Vec<String>, LockError> {
    Ok(keys_here().await)
}

#[redis_lock(keys = ids.iter().map(|id| format!("acct-{id}")))]
async fn iterator(ids: &[u64]) -> Result<Vec<String>, LockError> {
    Ok(keys_here().await)
}

#[redis_lock(keys = names)]
async fn by_value(names: Vec<String>) -> Result<Vec<String>, LockError> {
    Ok(keys_here().await)
}

#[redis_lock(keys = [strict], reentrant = false)]
async fn strict_list(strict: &str) -> Result<(), LockError> {
    Ok(())
}

struct Bank {
    ids: [u32; 2],
}

impl Bank {
    #[redis_lock(keys = ["acct-<self.ids[0]>", "acct-<self.ids[1]>"], client = redlock)]
    async fn both(&self, redlock: &redlock::Redlock) -> Result<Vec<String>, LockError> {
        Ok(keys_here().await)
    }

    #[redis_lock(keys = self.ids, client = redlock, wait = "0s")]
    async fn again(&self, redlock: &redlock::Redlock) -> Result<u32, LockError> {
        // Both of them, which this task holds, in the other order.
        self.inner(redlock, self.ids[1], self.ids[0]).await
    }

    #[redis_lock(keys = ["<one>", "<two>"], client = redlock, wait = "0s")]
    async fn inner(
        &self,
        redlock: &redlock::Redlock,
        one: u32,
        two: u32,
    ) -> Result<u32, LockError> {
        Ok(one + two)
    }
}

#[tokio::test]
async fn all_keys_are_locked_once_each_in_one_order() {
    global().await;
    assert_eq!(templates(9, 10).await.unwrap(), ["acct-10", "acct-9"]);
    assert_eq!(templates(3, 3).await.unwrap(), ["acct-3"]);
    assert_eq!(mixed("x", 4).await.unwrap(), ["acct-x", "day-4", "ledger"]);
    assert_eq!(iterator(&[2, 1, 2]).await.unwrap(), ["acct-1", "acct-2"]);
    assert_eq!(by_value(vec!["b".into(), "a".into()]).await.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn methods_lock_keys_of_their_object_and_re_enter_them() {
    let (redlock, bank) = (client().await, Bank { ids: [2, 1] });
    assert_eq!(bank.both(&redlock).await.unwrap(), ["acct-1", "acct-2"]);
    assert_eq!(bank.again(&redlock).await.unwrap(), 3);
}

#[tokio::test]
async fn bad_keys_are_typed_errors() {
    global().await;
    let none = iterator(&[]).await.unwrap_err();
    assert!(matches!(none, LockError::Config { .. }), "{none}");
    let many: Vec<u64> = (0..257).collect();
    assert!(matches!(iterator(&many).await.unwrap_err(), LockError::Config { .. }));
    let empty = mixed("", 1).await.unwrap_err();
    assert!(matches!(empty, LockError::InvalidKey { .. }), "{empty}");
    strict_list("strict-keys").await.unwrap();
}

#[tokio::test]
async fn a_task_that_has_some_of_the_keys_is_told_at_once() {
    let redlock = global().await;
    let inside = redlock.lock("acct-71").run(templates(70, 71)).await.unwrap();
    let error = inside.unwrap_err();
    assert!(
        matches!(&error, LockError::AlreadyHeld { key, with, .. } if key == "acct-71"
            && *with == ["acct-70"]),
        "{error}"
    );
    let inside = redlock.lock_all(["strict-keys", "b"]).run(strict_list("strict-keys")).await;
    assert!(matches!(inside.unwrap(), Err(LockError::AlreadyHeld { .. })));
}

#[redis_lock(keys = ["acct-<from>", "acct-<to>"], wait = "1s", on_busy = "skip", client = redlock)]
async fn skipped(redlock: &Redlock, from: u64, to: u64) -> Result<Option<usize>, LockError> {
    Ok(Lease::current().map(|lease| lease.keys().len()))
}

#[tokio::test(start_paused = true)]
async fn a_call_is_skipped_if_any_of_its_keys_is_busy() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let other = redlock.lock("acct-2").acquire().await.unwrap();
    assert_eq!(skipped(&redlock, 1, 2).await.unwrap(), None);
    assert_eq!(redlock.held().len(), 1, "the other key was let go of");
    drop(other);
    assert_eq!(skipped(&redlock, 1, 2).await.unwrap(), Some(2));
    // A mistake is no busy lock.
    let inside = redlock.lock("acct-2").run(skipped(&redlock, 1, 2)).await.unwrap();
    assert!(matches!(inside, Err(LockError::AlreadyHeld { .. })), "{inside:?}");
}

#[redis_lock(
    keys = [
        "acct-<from.try_lock().unwrap()>",
        "acct-<to.try_lock().unwrap()>",
        from.try_lock().unwrap().to_string(),
        to.try_lock().unwrap(),
    ],
    client = redlock
)]
async fn guarded(
    redlock: &Redlock,
    from: &Mutex<u32>,
    to: &Mutex<u32>,
) -> Result<Vec<String>, LockError> {
    Ok(keys_here().await)
}

/// The guard of one key is dropped before the next one is read.
#[tokio::test]
async fn every_key_may_take_the_same_mutex() {
    let (client, one) = (client().await, Mutex::new(1));
    assert_eq!(guarded(&client, &one, &one).await.unwrap(), ["1", "acct-1"]);
    assert_eq!(guarded(&client, &one, &Mutex::new(2)).await.unwrap().len(), 4);
}
