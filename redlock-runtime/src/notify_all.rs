//! Wakes all who wait for the same.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Context;

use tokio::sync::Notify;

use crate::shielded_waker::WakerShield;

/// What many may wait for. Where the waker of one of them panics, the others are woken all the
/// same.
#[derive(Debug, Default)]
pub(crate) struct NotifyAll {
    notify: Notify,
}

impl NotifyAll {
    /// Wakes all who wait, in the order in which they came.
    pub(crate) fn wake_all(&self) {
        self.notify.notify_waiters();
    }

    /// Waits until all are woken next, unless what is waited for `has_come` already. A call of
    /// `wake_all` after this check is not missed. Cancel safe.
    pub(crate) async fn unless(&self, has_come: impl FnOnce() -> bool) {
        let mut told = pin!(self.notify.notified());
        // Before the check, so that a call of `wake_all` after it is not missed.
        told.as_mut().enable();
        if has_come() {
            return;
        }
        let mut shield = WakerShield::default();
        poll_fn(|cx| told.as_mut().poll(&mut Context::from_waker(&shield.of(cx.waker())))).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Poll, Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicU32);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics on purpose");
        }
    }

    fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>, waker: &Waker) -> Poll<()> {
        future.poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn a_waker_that_panics_keeps_the_news_from_nobody() {
        let news = NotifyAll::default();
        let counts = Arc::<Counts>::default();
        let (good, bad) = (Waker::from(Arc::clone(&counts)), Waker::from(Arc::new(Panics)));
        let mut futures: Vec<_> = (0..5).map(|_| Box::pin(news.unless(|| false))).collect();
        for (at, future) in futures.iter_mut().enumerate() {
            for _ in 0..2 {
                assert!(poll(future.as_mut(), if at == 1 { &bad } else { &good }).is_pending());
            }
        }
        news.wake_all();
        assert_eq!(counts.0.load(Ordering::Relaxed), 4);
        assert!(futures.iter_mut().all(|future| poll(future.as_mut(), &good).is_ready()));
    }

    #[test]
    fn the_last_waker_is_called_and_what_has_come_is_not_waited_for() {
        let news = NotifyAll::default();
        let (old, new) = (Arc::<Counts>::default(), Arc::<Counts>::default());
        let mut future = Box::pin(news.unless(|| false));
        for waker in [&old, &new].map(|counts| Waker::from(Arc::clone(counts))) {
            assert!(poll(future.as_mut(), &waker).is_pending());
        }
        news.wake_all();
        let called = [old, new].map(|counts| counts.0.load(Ordering::Relaxed));
        assert_eq!(called, [0, 1]);
        assert!(poll(pin!(news.unless(|| true)), Waker::noop()).is_ready());
        assert!(poll(pin!(news.unless(|| false)), Waker::noop()).is_pending(), "they are over");
    }
}
