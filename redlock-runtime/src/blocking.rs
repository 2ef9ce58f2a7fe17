//! Waits on the thread of a caller without asynchronous code.

use std::cell::Cell;
use std::pin::pin;
use std::sync::{Arc, Condvar, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::task::coop;

use crate::mutex::Mutex;

thread_local! {
    /// Whether [`block_on`] waits on this thread.
    static BLOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Is the current future polled by a thread that blocks until it is done? It may be the only one
/// that would drive the runtime to which it belongs.
pub(crate) fn blocks_thread() -> bool {
    BLOCKS.get()
}

/// In place while a thread blocks.
struct Blocking {
    before: bool,
}

impl Blocking {
    fn begin() -> Self {
        Self { before: BLOCKS.replace(true) }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        BLOCKS.set(self.before);
    }
}

/// Blocks the current thread until `future` is done.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let _blocking = Blocking::begin();
    let signal = Arc::new(WakeSignal::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        signal.wait();
    }
}

/// Not `std::thread::park`: whoever else parks this thread would take wake-ups from us.
#[derive(Default)]
struct WakeSignal {
    is_woken: Mutex<bool>,
    news: Condvar,
}

impl WakeSignal {
    fn wait(&self) {
        let is_woken = self.is_woken.lock();
        let woken = self.news.wait_while(is_woken, |is_woken| !*is_woken);
        *woken.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_woken.lock() = true;
        self.news.notify_one();
    }
}

/// Does a runtime poll a task on this thread right now? To block it would stop other tasks, perhaps
/// the one that holds the lock. Threads of `spawn_blocking`, and of `block_in_place`, may block.
pub(crate) fn is_in_task() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    // Only a task that is being polled has a budget of operations. This takes all of it, and gives
    // it back; other code is never refused.
    let mut nobody = Context::from_waker(Waker::noop());
    let mut budget = Vec::new();
    let is_refused = (0..=u8::MAX).any(|_| match coop::poll_proceed(&mut nobody) {
        Poll::Ready(operation) => {
            budget.push(operation);
            false
        }
        Poll::Pending => true,
    });
    // Each one restores what was left before it.
    while budget.pop().is_some() {}
    is_refused
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;
    use tokio::task::{LocalSet, block_in_place, spawn_blocking};

    use super::*;

    #[test]
    fn a_task_is_told_from_threads_that_may_block() {
        assert!(!is_in_task());
        let threads = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let one = Builder::new_current_thread().build().unwrap();
        {
            let _entered = one.enter();
            assert!(!is_in_task());
        }
        for runtime in [&threads, &one] {
            runtime.block_on(async {
                assert!(is_in_task());
                assert!(tokio::spawn(async { is_in_task() }).await.unwrap());
                assert!(LocalSet::new().run_until(async { is_in_task() }).await);
                assert!(!spawn_blocking(is_in_task).await.unwrap());
                let nested = spawn_blocking(|| Handle::current().block_on(async { is_in_task() }));
                assert!(nested.await.unwrap());
            });
        }
        let inside = async { (block_in_place(is_in_task), is_in_task()) };
        assert_eq!(threads.block_on(async { tokio::spawn(inside).await.unwrap() }), (false, true));
    }

    #[tokio::test]
    async fn the_budget_of_a_task_is_given_back() {
        let mut nobody = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(is_in_task());
        }
        let mut spend = || pin!(coop::consume_budget()).poll(&mut nobody).is_ready();
        assert!((0..100).all(|_| spend()), "more than a few operations are left");
        assert!(is_in_task());
    }

    #[test]
    fn a_thread_waits_until_it_is_woken_however_often() {
        let (ask, asked) = oneshot::channel::<oneshot::Sender<u32>>();
        let other = std::thread::spawn(move || block_on(asked).unwrap().send(17));
        let (answer, answered) = oneshot::channel();
        ask.send(answer).unwrap();
        assert_eq!(block_on(answered), Ok(17));
        other.join().unwrap().unwrap();
        let mut polls = 0;
        block_on(std::future::poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            if polls > 3 { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}
