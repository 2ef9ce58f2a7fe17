//! The future of a locked call: acquire, body under the lease, release.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::opaque::OpaqueStage;
use super::output_slot::Slot;
use super::spec::{Client, Spec};
use super::stage::{Stage, WHAT};
use crate::after_completion::after_completion;
use crate::error::LockError;
use crate::key::Key;

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
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

impl<F, H, S> Locked<F, H, S> {
    #[inline]
    pub(super) fn new(body: F, on_error: H, spec: Spec, key: Key, client: Client) -> Self {
        Self {
            body: Body::Runs { future: body },
            stage: Box::new(Stage::Start { spec, key, client }),
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
            let finished = ready!(stage.poll_body(cx, |cx| future.poll(cx)));
            // The user's locals and arguments are dropped before the release.
            drop_body(stage, this.body.as_mut());
            let kept = match finished {
                Ok(output) if stage.begin_release(S::KEEPS) => S::put(output),
                Ok(output) => Err(output),
                Err(error) => Err(fail(this.on_error, stage, error)),
            };
            match kept {
                Ok(output) => this.body.set(Body::Finished { output }),
                // If there is a release, it goes on in the background.
                Err(output) => return Poll::Ready(output),
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

/// The output of a call whose body did not come to its end. A lock that is still held is released
/// in the background.
fn fail<H, T>(on_error: &mut Option<H>, stage: &mut Stage, error: LockError) -> T
where
    H: FnOnce(LockError) -> T,
{
    *stage = Stage::Done;
    match on_error.take() {
        Some(on_error) => on_error(error),
        None => after_completion(WHAT),
    }
}
