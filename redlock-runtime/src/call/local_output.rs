//! Locked calls whose output is not `Send`.

use std::future;

use super::locked::Locked;
use super::output_slot::Handed;
use super::pending::Pending;
use super::spec::{Client, Spec};
use crate::error::LockError;
use crate::key::Key;

/// For any other output. Method lookup finds this trait only where the inherent methods do not
/// apply. The output is returned at once and the lock is released in the background, so that a
/// value that is not `Send` never lives in the future across an `.await`.
pub trait LockLocal: Sized {
    /// The body.
    type Body: Future;
    /// The handler of failures.
    type OnError;

    /// Like the inherent method, with a release in the background.
    #[doc(hidden)]
    fn __redlock_lock(
        self,
        spec: Spec,
        key: Key,
        client: Client,
    ) -> Locked<Self::Body, Self::OnError, Handed>;

    /// Is never called: the inherent method applies to every output that is `Send`. It makes any
    /// other output one compile error; the future of the inherent method would be a second one
    /// where it is awaited.
    #[doc(hidden)]
    fn __redlock_lock_until_released(
        self,
        _: Spec,
        _: Key,
        _: Client,
    ) -> Locked<Self::Body, Self::OnError, Handed>
    where
        <Self::Body as Future>::Output: Send,
    {
        unreachable!("the inherent method applies to an output that is `Send`")
    }
}

impl<F, H> LockLocal for Pending<F, H>
where
    F: Future,
    H: FnOnce(LockError) -> F::Output,
{
    type Body = F;
    type OnError = H;

    #[inline]
    fn __redlock_lock(self, spec: Spec, key: Key, client: Client) -> Locked<F, H, Handed> {
        Locked::new(self.body, self.on_error, spec, key, client)
    }
}

/// For a handler that does not fit, which [`handle`](super::handle) has reported: without this a
/// second error would say that there is no such method. Method lookup tries references last.
impl<F: Future, H> LockLocal for &Pending<F, H> {
    type Body = future::Pending<F::Output>;
    type OnError = fn(LockError) -> F::Output;

    fn __redlock_lock(
        self,
        _: Spec,
        _: Key,
        _: Client,
    ) -> Locked<Self::Body, Self::OnError, Handed> {
        unreachable!("a handler that does not fit is a compile error")
    }
}
