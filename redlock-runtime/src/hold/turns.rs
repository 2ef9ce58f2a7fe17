//! Turns of sibling calls: calls inside of one hold that are not inside of each other.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::process::{self, OfProcess};
use crate::shield::shielded;

/// One turn at a time, in the order of the requests. Nothing is allocated before the first request.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: OnceLock<Arc<Semaphore>>,
}

/// A turn; dropping it ends it.
pub(crate) struct Turn {
    permit: Option<OfProcess<OwnedSemaphorePermit>>,
    /// The turn of the call around this one.
    around: Option<Arc<Turn>>,
}

impl Turn {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { permit: Some(OfProcess::new(process::latest(), permit)), around: None }
    }

    /// A turn of a call inside of another one, whose turn lasts for as long as this one.
    pub(crate) fn inside(mut self, around: Option<Arc<Self>>) -> Arc<Self> {
        self.around = around;
        Arc::new(self)
    }
}

impl Drop for Turn {
    /// Wakes the next waiting call, whose waker may panic. The turns around this one that end with
    /// it end one by one: there may be so many that a recursion would exhaust the stack.
    fn drop(&mut self) {
        shielded(|| drop(self.permit.take()));
        let mut around = self.around.take();
        while let Some(mut turn) = around.and_then(Arc::into_inner) {
            around = turn.around.take();
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
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
