//! Assertions about what a client holds.
#![expect(clippy::missing_panics_doc, reason = "the macros say it")]

use std::borrow::Borrow;

use crate::client::Redlock;
use crate::global::global;
use crate::state::LeaseState;

/// Asserts that a client holds the lock of a key (without the prefix) now: it was granted, and its
/// lease is neither lost nor released. Without a client the global one is asked, or that of the
/// [`scope`](crate::Redlock::scope) around (feature `test-util`).
///
/// # Panics
/// If the lock is not held, with the locks that are; and if there is no client to ask.
///
/// ```
/// use redlock::testing::{FaultyStore, assert_held};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let redlock = FaultyStore::new().client().await?;
/// let guard = redlock.lock("stock-42").acquire().await?;
/// assert_held!(redlock, "stock-42");
/// redlock.scope(async { assert_held!("stock-42") }).await;
/// # drop(guard);
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! assert_held {
    ($key:expr $(,)?) => {
        $crate::__private::assert_held_here(&$key)
    };
    ($redlock:expr, $key:expr $(,)?) => {
        $crate::__private::assert_held_by(&$redlock, &$key)
    };
}

/// Asserts that a client does not hold the lock of a key (without the prefix): the opposite of
/// [`assert_held!`](crate::assert_held). Another client may hold it.
///
/// # Panics
/// If the lock is held, also where the key is given as it stands in Redis, with the prefix; and if
/// there is no client to ask.
///
/// ```
/// use redlock::testing::{FaultyStore, assert_not_held};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let redlock = FaultyStore::new().client().await?;
/// redlock.lock("stock-42").acquire().await?.release().await?;
/// assert_not_held!(redlock, "stock-42");
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! assert_not_held {
    ($key:expr $(,)?) => {
        $crate::__private::assert_not_held_here(&$key)
    };
    ($redlock:expr, $key:expr $(,)?) => {
        $crate::__private::assert_not_held_by(&$redlock, &$key)
    };
}

/// What `assert_held!(key)` expands to.
#[track_caller]
pub fn assert_held_here(key: &(impl AsRef<str> + ?Sized)) {
    assert_held_by(&here(), key);
}

/// What `assert_held!(redlock, key)` expands to.
#[track_caller]
pub fn assert_held_by(redlock: &impl Borrow<Redlock>, key: &(impl AsRef<str> + ?Sized)) {
    let (key, redlock) = (key.as_ref(), redlock.borrow());
    let held = held(redlock);
    let hint = name_in_redis(redlock, &held, key).unwrap_or_default();
    assert!(
        held.iter().any(|held| held == key),
        "the lock `{key}` is not held; this client holds {held:?}{hint}"
    );
}

/// What `assert_not_held!(key)` expands to.
#[track_caller]
pub fn assert_not_held_here(key: &(impl AsRef<str> + ?Sized)) {
    assert_not_held_by(&here(), key);
}

/// What `assert_not_held!(redlock, key)` expands to.
#[track_caller]
#[expect(clippy::panic, reason = "an assertion")]
pub fn assert_not_held_by(redlock: &impl Borrow<Redlock>, key: &(impl AsRef<str> + ?Sized)) {
    let (key, redlock) = (key.as_ref(), redlock.borrow());
    let held = held(redlock);
    assert!(!held.iter().any(|held| held == key), "the lock `{key}` is held");
    if let Some(hint) = name_in_redis(redlock, &held, key) {
        panic!("a lock is held{hint}");
    }
}

/// What to say where `key` is the name that a held lock has in Redis: no lock of the client may be
/// called so, and the assertion would not look at the lock that is meant.
fn name_in_redis(redlock: &Redlock, held: &[String], key: &str) -> Option<String> {
    let bare = key.strip_prefix(redlock.prefix()).filter(|bare| *bare != key)?;
    held.iter().any(|held| held == bare).then(|| {
        format!("; `{key}` is what the lock `{bare}` is called in Redis; leave out the prefix")
    })
}

/// The keys of the locks that a client holds.
fn held(redlock: &Redlock) -> Vec<String> {
    let held = redlock.held().into_iter().filter(|held| held.state() != LeaseState::Lost);
    held.flat_map(|held| held.keys().to_vec()).collect()
}

#[track_caller]
#[expect(clippy::panic, reason = "an assertion")]
fn here() -> Redlock {
    global().unwrap_or_else(|error| {
        panic!("no client to ask: {error}; name one first, as in `assert_held!(redlock, key)`")
    })
}
