//! A body that has no lock yet: what the expansion makes of a call, before its future begins.

use super::locked::Locked;
use super::on_error::FromLockError;
use super::output_slot::Kept;
use super::spec::{Client, Spec};
use crate::error::LockError;
use crate::key::Key;

/// A body, and what a failure of its lock returns: the user's future before it is placed in
/// [`Locked`].
// All that happens to it takes it by value: borrowing the future even once would make the compiler
// keep a second copy of it in the caller's future (rust-lang/rust#96084).
#[derive(Debug)]
pub struct Pending<F, H> {
    pub(super) body: F,
    pub(super) on_error: H,
}

/// Converts a lock failure to the error type of the function.
#[inline]
pub fn convert<R: FromLockError, F: Future<Output = R>>(body: F) -> Pending<F, fn(LockError) -> R> {
    Pending { body, on_error: R::from_lock_error }
}

/// Gives a lock failure to the user's handler.
#[inline]
pub fn handle<F, H>(body: F, on_error: H) -> Pending<F, H>
where
    F: Future,
    H: FnOnce(LockError) -> F::Output,
{
    Pending { body, on_error }
}

impl<F, H> Pending<F, H> {
    #[inline]
    pub(super) fn map_handler<G>(self, map: impl FnOnce(H) -> G) -> Pending<F, G> {
        Pending { body: self.body, on_error: map(self.on_error) }
    }
}

impl<F, H> Pending<F, H>
where
    F: Future,
    F::Output: Send,
    H: FnOnce(LockError) -> F::Output,
{
    /// For an output that is `Send`: it can wait in the future of the call until the release has
    /// left.
    // This method and the next one have unusual names on purpose: where these do not apply, method
    // lookup goes on to `LockLocal`, and to traits of the caller's, none of which may have such a
    // method.
    #[doc(hidden)]
    #[inline]
    pub fn __redlock_lock<'a>(
        self,
        spec: Spec,
        key: Key,
        client: Client,
    ) -> Locked<F, H, Kept<'a, F::Output>>
    where
        F::Output: 'a,
    {
        Locked::new(self.body, self.on_error, spec, key, client)
    }

    /// For `release = "await"`: the output waits in the future of the call until the release was
    /// answered.
    // Its body is that of the method above: the two differ in what `LockLocal` does for an output
    // that is not `Send`. There the other one works, and this one is a compile error.
    #[doc(hidden)]
    #[inline]
    pub fn __redlock_lock_until_released<'a>(
        self,
        spec: Spec,
        key: Key,
        client: Client,
    ) -> Locked<F, H, Kept<'a, F::Output>>
    where
        F::Output: 'a,
    {
        Locked::new(self.body, self.on_error, spec, key, client)
    }
}
