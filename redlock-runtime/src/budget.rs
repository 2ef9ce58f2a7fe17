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
}
