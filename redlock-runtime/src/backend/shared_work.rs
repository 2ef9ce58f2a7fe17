//! Background work whose outcome several callers wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::mutex::Mutex;
use crate::notify_all::NotifyAll;

/// One piece of work at a time. A caller that wants its outcome begins the work, or joins the
/// callers that wait for it. The work goes on when all of them have gone, and ends with this value.
#[derive(Debug)]
pub(crate) struct SharedWork<T> {
    under_way: Mutex<Option<UnderWay<T>>>,
}

#[derive(Debug)]
struct UnderWay<T> {
    end: Arc<End<T>>,
    task: AbortHandle,
}

/// How the work ends. Callers that wait are woken in the order in which they came.
#[derive(Debug)]
struct End<T> {
    /// Stays empty if the work is aborted.
    outcome: OnceLock<T>,
    is_over: AtomicBool,
    over: NotifyAll,
}

/// Signals the end of the work, however its task ends.
struct Telling<T>(Arc<End<T>>);

impl<T> Drop for Telling<T> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.over.wake_all();
    }
}

impl<T> Default for SharedWork<T> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> SharedWork<T> {
    /// The outcome of the work that is under way. If there is none, `begin` begins it on the
    /// runtime `home`. `None`: the work was aborted, by a panic or with its runtime. Cancel safe:
    /// the work goes on.
    pub(crate) async fn join<F>(&self, home: &Handle, begin: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let end = self.enqueued(home, begin);
        end.over.unless(|| end.is_over.load(Ordering::Acquire)).await;
        end.outcome.get().cloned()
    }

    /// The outcome of the work that was begun last, if it is over.
    pub(crate) fn latest(&self) -> Option<T> {
        self.under_way.lock().as_ref()?.end.outcome.get().cloned()
    }

    fn enqueued<F>(&self, home: &Handle, begin: impl FnOnce() -> F) -> Arc<End<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut under_way = self.under_way.lock();
        if let Some(work) = &*under_way
            && !work.end.is_over.load(Ordering::Acquire)
        {
            return Arc::clone(&work.end);
        }
        let (outcome, over) = (OnceLock::new(), NotifyAll::default());
        let end = Arc::new(End { outcome, is_over: AtomicBool::new(false), over });
        let (telling, work) = (Telling(Arc::clone(&end)), begin());
        let task = home.spawn(async move {
            let _ = telling.0.outcome.set(work.await);
            drop(telling);
        });
        *under_way = Some(UnderWay { end: Arc::clone(&end), task: task.abort_handle() });
        end
    }
}

impl<T> Drop for SharedWork<T> {
    fn drop(&mut self) {
        if let Some(work) = self.under_way.lock().take() {
            work.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(3);
    const SHORT: Duration = Duration::from_secs(1);

    /// Work that takes long; its outcome is how often it was begun.
    fn count(begun: &Arc<AtomicU32>) -> impl Future<Output = u32> + Send + use<> {
        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            sleep(LONG).await;
            number
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_when_those_who_wait_have_gone_and_is_begun_once() {
        let (work, begun, home) = (SharedWork::default(), Arc::default(), Handle::current());
        for _ in 0..2 {
            assert!(timeout(SHORT, work.join(&home, || count(&begun))).await.is_err());
        }
        let both = tokio::join!(
            work.join(&home, || count(&begun)),
            timeout(2 * SHORT, work.join(&home, || count(&begun)))
        );
        assert_eq!(both, (Some(1), Ok(Some(1))));
        assert_eq!(work.join(&home, || count(&begun)).await, Some(2), "the first one is over");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_breaks_off_is_told_and_begun_anew() {
        let (work, home) = (SharedWork::<u32>::default(), Handle::current());
        assert_eq!(work.join(&home, || async { panic!("on purpose") }).await, None);
        assert_eq!(work.join(&home, || async { 7 }).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_its_owner() {
        let (work, home) = (SharedWork::default(), Handle::current());
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        let begin = || async move {
            sleep(LONG).await;
            drop(alive);
        };
        assert!(timeout(SHORT, work.join(&home, begin)).await.is_err());
        drop(work);
        assert!(timeout(SHORT, ended).await.unwrap().is_err());
    }
}
