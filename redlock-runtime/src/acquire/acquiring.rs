//! The future of an acquisition.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::one_key::acquire;
use super::order::{Acquisition, Order};
use crate::budget;
use crate::engine::Engine;
use crate::mutex::Mutex;
use crate::process;

/// The future of an acquisition.
///
/// Cancel safe: dropping it abandons the acquisition. A lock that was granted meanwhile is
/// released, and an unanswered command is cleaned up.
pub(crate) struct Acquiring {
    /// The mutex is never locked: it makes the caller's future `Sync` where its body is. `None`:
    /// done.
    work: Mutex<Option<Work>>,
    process: process::ProcessId,
}

type Work = Pin<Box<dyn Future<Output = Acquisition> + Send>>;

/// Begins to acquire a lock. The future does nothing before its first poll.
pub(crate) fn start(engine: &Arc<Engine>, order: Order) -> Acquiring {
    let own = Arc::clone(engine);
    Acquiring::new(engine, async move {
        budget::spend().await;
        acquire(&own, &order).await
    })
}

impl Acquiring {
    pub(super) fn new(
        engine: &Engine,
        acquire: impl Future<Output = Acquisition> + Send + 'static,
    ) -> Self {
        let work = engine.polled_by_caller(acquire);
        Self { work: Mutex::new(Some(work)), process: engine.process }
    }
}

impl Future for Acquiring {
    type Output = Acquisition;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Acquisition> {
        let work = self.work.get_mut();
        let Some(running) = work else { unreachable!("polled after completion") };
        let granted = ready!(running.as_mut().poll(cx));
        *work = None;
        Poll::Ready(granted)
    }
}

impl Drop for Acquiring {
    /// The child of a fork has nothing to abandon: the acquisition goes on in the parent. Another
    /// thread of the parent may hold the mutexes that this drop would lock.
    fn drop(&mut self) {
        let work = self.work.get_mut().take();
        if work.is_some() && self.process != process::id() {
            std::mem::forget(work);
        }
    }
}
