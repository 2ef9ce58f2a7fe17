//! The user's future before it is placed in [`Locked`].
//!
//! Every function here takes `self` by value: borrowing the future even once would make the
//! compiler keep a second copy of it in the caller's future (rust-lang/rust#96084).

use super::locked::{Handed, Kept, Locked};
use super::on_error::FromLockError;
use super::spec::{Client, Spec};
use crate::error::LockError;
use crate::key::Key;

/// A body, and what a failure of its lock returns.
#[derive(Debug)]
pub struct Pending<F, H> {
    body: F,
    on_error: H,
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
    /// For an output that is `Send`: the release is awaited, so the lock is free when the call
    /// returns.
    #[inline]
    pub fn lock<'a>(self, spec: Spec, key: Key, client: Client) -> Locked<F, H, Kept<'a, F::Output>>
    where
        F::Output: 'a,
    {
        Locked::new(self.body, self.on_error, spec, key, client)
    }
}

/// For any other output. Method lookup finds this trait only where the inherent `lock` does not
/// apply. The output is returned at once and the lock is released in the background, so that a
/// value that is not `Send` never lives in the future across an `.await`.
pub trait LockLocal {
    /// The body.
    type Body: Future;
    /// The handler of failures.
    type OnError;

    /// Like the inherent `lock`, with a release in the background.
    fn lock(
        self,
        spec: Spec,
        key: Key,
        client: Client,
    ) -> Locked<Self::Body, Self::OnError, Handed>;
}

impl<F, H> LockLocal for Pending<F, H>
where
    F: Future,
    H: FnOnce(LockError) -> F::Output,
{
    type Body = F;
    type OnError = H;

    #[inline]
    fn lock(self, spec: Spec, key: Key, client: Client) -> Locked<F, H, Handed> {
        Locked::new(self.body, self.on_error, spec, key, client)
    }
}
