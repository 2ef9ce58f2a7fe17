//! A future that is polled only while a lease holds.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::Span;

use super::reentrancy::HoldLink;
use super::watch::Watch;
use crate::error::LockError;

pin_project! {
    /// Ends with the output of the future, or with the loss of the lease, whichever comes first.
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub(crate) struct Protect<F> {
        #[pin]
        future: Option<F>,
        watch: Watch,
        span: Span,
    }

    impl<F> PinnedDrop for Protect<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                this.watch.drop_body(|| this.future.set(None));
            }
        }
    }
}

impl<F> Protect<F> {
    /// Each step of `future` runs in `span`.
    pub(crate) fn new(link: Arc<HoldLink>, span: Span, future: F) -> Self {
        Self { future: Some(future), watch: Watch::new(link), span }
    }
}

impl<F: Future> Future for Protect<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let span = &*this.span;
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            unreachable!("polled after completion")
        };
        let outcome =
            std::task::ready!(this.watch.step(cx, |cx| span.in_scope(|| future.poll(cx))));
        // The future's locals are dropped here, while the lease may still hold.
        this.watch.drop_body(|| this.future.set(None));
        Poll::Ready(outcome)
    }
}
