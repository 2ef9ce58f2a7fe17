//! The cooperative budget of tokio's tasks, for what is done at once: without it, a task that locks
//! again and again would never let others run, nor a `timeout` around it end.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use tokio::task::coop;

/// Spends one unit of the budget of the current task. `false`: nothing is left of it, and other
/// tasks have to run first. Code outside of a task has no end of it.
pub(crate) fn try_spend() -> bool {
    match coop::poll_proceed(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(unit) => {
            unit.made_progress();
            true
        }
        Poll::Pending => false,
    }
}

/// Spends one unit, or lets other tasks run once where nothing is left. It does not wait for more:
/// an executor inside of the task, which blocks it, would wait for ever. Cancel safe.
pub(crate) async fn spend() {
    if !try_spend() {
        yield_to_others().await;
    }
}

/// Ready after the tasks have run that wait for the same worker thread now.
pub(crate) async fn yield_to_others() {
    let mut is_woken = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut is_woken, true) {
            return Poll::Ready(());
        }
        // A task that wakes itself runs after all others that wait.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::try_spend;
    use crate::blocking::block_on;
    use crate::client::Redlock;

    async fn client() -> Redlock {
        Redlock::builder().memory().build().await.unwrap()
    }

    /// Calls `lock` again and again, until another task of this thread has had its turn.
    async fn lock_until_another_runs(lock: impl AsyncFn()) {
        let has_run = Arc::<AtomicBool>::default();
        let other = Arc::clone(&has_run);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        for _ in 0..1000 {
            lock().await;
        }
        assert!(has_run.load(Ordering::Relaxed), "the task has never yielded");
    }

    #[tokio::test]
    async fn a_task_that_locks_again_and_again_lets_others_run() {
        let redlock = client().await;
        let keys = [&["k"][..], &["k", "l"]];
        for names in keys {
            lock_until_another_runs(async || {
                redlock.lock_all(names).run(async {}).await.unwrap();
            })
            .await;
        }
    }

    #[tokio::test]
    async fn a_task_that_re_enters_again_and_again_lets_others_run() {
        let redlock = client().await;
        let body = lock_until_another_runs(async || {
            drop(redlock.lock("k").try_acquire().await.unwrap().expect("it is its own"));
        });
        redlock.lock("k").run(body).await.unwrap();
    }

    /// An executor inside of a task, which keeps the task from yielding.
    #[tokio::test]
    async fn a_task_that_blocks_on_its_locks_is_served() {
        let redlock = client().await;
        for _ in 0..1000 {
            let body = async { redlock.lock("k").run(async {}).await.unwrap() };
            block_on(redlock.lock("k").run(body)).unwrap();
        }
    }

    /// The lock is taken, and the task has no budget left.
    #[test]
    fn a_task_that_blocks_on_a_wait_is_served() {
        let builder = || Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let (runtime, (tell, told)) = (builder().unwrap(), mpsc::channel());
        runtime.spawn(async move {
            let redlock = client().await;
            let read = redlock.lock("read").acquire().await.unwrap();
            let taken = redlock.lock("taken").acquire().await.unwrap();
            while try_spend() {}
            let wait = Duration::from_millis(50);
            let one = block_on(redlock.lock("taken").wait(wait).acquire()).map(drop);
            let all = block_on(redlock.lock_all(["taken", "l"]).wait(wait).acquire()).map(drop);
            let downgraded = block_on(read.downgrade()).map(drop);
            tell.send((one, all, downgraded)).unwrap();
            drop(taken);
        });
        let served = told.recv_timeout(Duration::from_secs(60));
        runtime.shutdown_background();
        let (one, all, downgraded) = served.expect("a call that blocks its task hears its answer");
        assert!(one.is_err_and(|error| error.is_busy()) && all.is_err_and(|error| error.is_busy()));
        downgraded.unwrap();
    }
}
