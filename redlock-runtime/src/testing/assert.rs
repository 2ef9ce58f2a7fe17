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

/// Asserts that a client does not hold the lock of a key: the opposite of
/// [`assert_held!`](crate::assert_held). Another client may hold it.
///
/// # Panics
/// If the lock is held, and if there is no client to ask.
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
    let (key, held) = (key.as_ref(), held(redlock.borrow()));
    assert!(
        held.iter().any(|held| held == key),
        "the lock `{key}` is not held; this client holds {held:?}"
    );
}

/// What `assert_not_held!(key)` expands to.
#[track_caller]
pub fn assert_not_held_here(key: &(impl AsRef<str> + ?Sized)) {
    assert_not_held_by(&here(), key);
}

/// What `assert_not_held!(redlock, key)` expands to.
#[track_caller]
pub fn assert_not_held_by(redlock: &impl Borrow<Redlock>, key: &(impl AsRef<str> + ?Sized)) {
    let (key, held) = (key.as_ref(), held(redlock.borrow()));
    assert!(!held.iter().any(|held| held == key), "the lock `{key}` is held");
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
