//! The future of a locked call: acquire, body under the lease, release.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::on_error::FromLockError;
use super::opaque::OpaqueStage;
use super::output_slot::{Kept, Slot};
use super::spec::{Client, Spec};
use super::stage::{Stage, WHAT};
use crate::after_completion::after_completion;
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

pin_project! {
    #[project = BodyState]
    #[project_replace = BodyOwned]
    enum Body<F, S> {
        Runs { #[pin] future: F },
        Finished { output: S },
        Gone,
    }
}

pin_project! {
    /// The only generic piece: the user's future in place, unboxed. Everything that does not
    /// mention its type is compiled once, in [`Stage`].
    // The order of the fields is the order of drops: the user's locals and arguments go first, then
    // the lock is released.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Locked<F, H, S> {
        #[pin]
        body: Body<F, S>,
        stage: OpaqueStage,
        on_error: Option<H>,
    }

    impl<F, H, S> PinnedDrop for Locked<F, H, S> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let BodyState::Runs { .. } = this.body.as_mut().project() {
                drop_body(this.stage.stage(), this.body);
            }
        }
    }
}

impl<F, H, S> fmt::Debug for Locked<F, H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl<F, H, S> Locked<F, H, S> {
    #[inline]
    pub(super) fn new(body: F, on_error: H, spec: Spec, key: Key, client: Client) -> Self {
        Self {
            body: Body::Runs { future: body },
            stage: Box::new(Stage::new(spec, key, client)),
            on_error: Some(on_error),
        }
    }
}

impl<F, H, S> Future for Locked<F, H, S>
where
    F: Future,
    H: FnOnce(LockError) -> F::Output,
    S: Slot<F::Output>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let stage = this.stage.stage();
        if let BodyState::Runs { future } = this.body.as_mut().project() {
            if let Err(error) = ready!(stage.poll_acquire(cx)) {
                this.body.set(Body::Gone);
                return Poll::Ready(fail(this.on_error, error));
            }
            match ready!(stage.step(cx, |cx| future.poll(cx))) {
                Ok(output) => {
                    // The user's locals and arguments are dropped before the release.
                    drop_body(stage, this.body.as_mut());
                    if !stage.begin_release(S::KEEPS) {
                        return Poll::Ready(output);
                    }
                    match S::put(output) {
                        Ok(output) => this.body.set(Body::Finished { output }),
                        // The release goes on in the background.
                        Err(output) => return Poll::Ready(output),
                    }
                }
                Err(error) => {
                    drop_body(stage, this.body.as_mut());
                    stage.abandon();
                    return Poll::Ready(fail(this.on_error, error));
                }
            }
        }
        ready!(stage.poll_release(cx));
        match this.body.project_replace(Body::Gone) {
            BodyOwned::Finished { output } => Poll::Ready(output.take()),
            BodyOwned::Runs { .. } | BodyOwned::Gone => after_completion(WHAT),
        }
    }
}

/// Drops the body, or what is left of it, inside of its hold.
fn drop_body<F, S>(stage: &mut Stage, mut body: Pin<&mut Body<F, S>>) {
    // Without destructors, nothing sees the hold.
    if std::mem::needs_drop::<F>() {
        stage.drop_body(|| body.set(Body::Gone));
    } else {
        body.set(Body::Gone);
    }
}

fn fail<H: FnOnce(LockError) -> T, T>(on_error: &mut Option<H>, error: LockError) -> T {
    match on_error.take() {
        Some(on_error) => on_error(error),
        None => after_completion(WHAT),
    }
}
