//! A shutdown takes the waiters out of all queues of a client.

use std::sync::Arc;

use super::{ById, LocalQueue, LocalQueues};
use crate::error::LockError;
use crate::local_queue::shutdowns::Shutdown;
use crate::local_queue::waiter::Waiter;

impl LocalQueues {
    /// Begins a shutdown: waiters end with an error, and so do callers that come before it ends.
    /// Those inside of a hold wait on.
    pub(crate) fn shut_down(&self) -> Shutdown {
        // The shutdown is counted first: a caller that enters a queue after the loop below sees the
        // count.
        let shutdown = self.shutdowns.begin();
        let queues: Vec<_> =
            self.queues.lock().iter().map(|ById(queue)| Arc::clone(queue)).collect();
        for queue in queues {
            let shutdowns = &self.shutdowns;
            let is_refused = |waiter: &Waiter| shutdowns.refuse(waiter.terms.shutdowns_before);
            let waiters = queue.state().waiters.take_all(is_refused);
            for waiter in waiters {
                waiter.answer(Err(queue.shutting_down()));
            }
            queue.news.notify_one();
        }
        shutdown.tell();
        shutdown
    }
}

impl LocalQueue {
    pub(in crate::local_queue) fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { key: self.key().name().to_owned() }
    }
}
