//! Waiting for a condition, with a bound, instead of sleeping and hoping.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use crate::patience::{passed, patient};

/// What a polled condition may answer: done with a value, or not yet with a reason.
pub trait Verdict {
    /// What is handed on once the condition holds.
    type Value;
    /// The value, or what to say if this was the last try.
    fn settle(self) -> Result<Self::Value, String>;
}

impl Verdict for bool {
    type Value = ();
    fn settle(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".to_owned()) }
    }
}

impl<T> Verdict for Option<T> {
    type Value = T;
    fn settle(self) -> Result<T, String> {
        self.ok_or_else(|| "None".to_owned())
    }
}

impl<T, E: Debug> Verdict for Result<T, E> {
    type Value = T;
    fn settle(self) -> Result<T, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Asks `condition` again and again until it holds; fails the test after `bound`.
///
/// The condition gives a `bool`, an `Option` or a `Result`; the last two hand on their value, and
/// the last one says in the failure message what was seen instead.
#[track_caller]
pub fn eventually<C, F>(
    bound: Duration,
    mut condition: C,
) -> impl Future<Output = <F::Output as Verdict>::Value>
where
    C: FnMut() -> F,
    F: Future<Output: Verdict>,
{
    let caller = Location::caller();
    async move {
        let (end, mut tries) = (passed() + bound, 0);
        loop {
            tries += 1;
            match condition().await.settle() {
                Ok(value) => return value,
                Err(last) if passed() > end => panic!(
                    "{caller}: still not so after {bound:?} and {tries} tries; last seen: {last}"
                ),
                Err(_) => tokio::time::sleep(Duration::from_millis(3)).await,
            }
        }
    }
}

/// Awaits a future; fails the test after `bound`, instead of hanging it.
#[track_caller]
pub fn within<F: Future>(bound: Duration, future: F) -> impl Future<Output = F::Output> {
    let caller = Location::caller();
    async move {
        let outcome = patient(bound, future).await;
        outcome.unwrap_or_else(|| panic!("{caller}: nothing after {bound:?}"))
    }
}

/// Lets time pass, where time is the subject: a body that works for a while, a lease that ends.
/// To wait for something, use `eventually`.
pub async fn time_passes(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Blocks the thread, as a body does that never yields.
#[allow(clippy::disallowed_methods, reason = "what others use in its place")]
pub fn block_thread(time: Duration) {
    std::thread::sleep(time);
}

/// Milliseconds.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Seconds.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
