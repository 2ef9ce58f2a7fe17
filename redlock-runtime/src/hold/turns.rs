//! Turns of sibling calls: calls inside of one hold that are not inside of each other.

use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::shield::shielded;

/// One turn at a time, in the order of the requests. Nothing is allocated before the first request.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: OnceLock<Arc<Semaphore>>,
}

/// A turn; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    /// The turn of the call around this one.
    around: Option<Arc<Turn>>,
}

impl Turn {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { permit: Some(permit), around: None }
    }

    /// A turn of a call inside of another one, whose turn lasts for as long as this one.
    pub(crate) fn inside(mut self, around: Option<Arc<Self>>) -> Arc<Self> {
        self.around = around;
        Arc::new(self)
    }
}

impl Drop for Turn {
    /// Wakes the next waiting call, whose waker may panic.
    fn drop(&mut self) {
        shielded(|| drop(self.permit.take()));
    }
}

impl Turns {
    /// Takes the turn if no call has it or waits for it.
    pub(crate) fn try_take(&self) -> Option<Turn> {
        Arc::clone(self.queue()).try_acquire_owned().ok().map(Turn::new)
    }

    /// Waits for the turn. Dropping the future leaves the queue.
    pub(crate) fn take(&self) -> impl Future<Output = Option<Turn>> + Send + Sync + use<> {
        let queue = Arc::clone(self.queue());
        // The semaphore is never closed.
        async move { queue.acquire_owned().await.ok().map(Turn::new) }
    }

    fn queue(&self) -> &Arc<Semaphore> {
        self.queue.get_or_init(|| Arc::new(Semaphore::new(1)))
    }
}
