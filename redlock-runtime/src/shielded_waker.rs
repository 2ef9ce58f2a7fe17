//! A caller's waker, shielded for those who call it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

use crate::shield::shielded;

/// The waker of whoever polls a future, made once for as long as that is the same one.
#[derive(Default)]
pub(crate) struct WakerShield(Option<Arc<ShieldedWaker>>);

impl WakerShield {
    /// `waker`, such that its panics harm nobody else.
    pub(crate) fn of(&mut self, waker: &Waker) -> Waker {
        let known = self.0.take().filter(|known| known.is_of(waker));
        let known = known.unwrap_or_else(|| Arc::new(ShieldedWaker(Some(waker.clone()))));
        Waker::from(Arc::clone(self.0.insert(known)))
    }
}

/// Who calls a waker has more to do than this: timers and connections call those of many callers in
/// a row, and after a panic of one they would not call the others.
struct ShieldedWaker(Option<Waker>);

impl ShieldedWaker {
    fn is_of(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|own| own.will_wake(waker))
    }
}

impl Wake for ShieldedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = shielded(|| self.0.as_ref().map(Waker::wake_by_ref));
    }
}

impl Drop for ShieldedWaker {
    fn drop(&mut self) {
        let _ = shielded(|| drop(self.0.take()));
    }
}

pin_project! {
    /// A future that gives only shielded wakers to what it polls. It allocates once for each waker.
    pub(crate) struct Shielded<F> {
        #[pin]
        future: F,
        shield: WakerShield,
    }
}

/// Shields the wakers of those who poll `future`.
pub(crate) fn shield_wakers<F: Future>(future: F) -> Shielded<F> {
    Shielded { future, shield: WakerShield::default() }
}

impl<F: Future> Future for Shielded<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let waker = this.shield.of(cx.waker());
        this.future.poll(&mut Context::from_waker(&waker))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts how often it was woken, and panics each time, and when it is dropped.
    #[derive(Default)]
    struct Panics(AtomicU32);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a waker panics on purpose");
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a waker panics on purpose when it is dropped");
        }
    }

    struct Silent;

    impl Wake for Silent {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_waker_that_panics_is_called_without_harm() {
        let panics = Arc::<Panics>::default();
        let mut shield = WakerShield::default();
        let waker = shield.of(&Waker::from(Arc::clone(&panics)));
        waker.wake_by_ref();
        let again = shield.of(&waker);
        again.wake();
        assert_eq!(panics.0.load(Ordering::Relaxed), 2);
        drop(shield);
        let _ = shielded(|| drop(panics));
        drop(waker);
    }

    /// What was told a waker before need not be told again, and nothing is allocated.
    #[test]
    fn the_same_waker_has_one_shield() {
        let mut shield = WakerShield::default();
        let [one, other] = [(); 2].map(|()| Waker::from(Arc::new(Silent)));
        let first = shield.of(&one);
        assert!(first.will_wake(&shield.of(&one)));
        assert!(!first.will_wake(&shield.of(&other)));
    }
}
