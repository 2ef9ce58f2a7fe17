//! A shutdown takes the waiters out of all queues of a client.

use std::sync::Arc;

use super::LocalQueues;
use crate::local_queue::shutdowns::Shutdown;

impl LocalQueues {
    /// Begins a shutdown: all waiters end with an error, and so do callers that come before it
    /// ends.
    pub(crate) fn shut_down(&self) -> Shutdown {
        // The shutdown is counted first: a caller that enters a queue after the loop below sees the
        // count.
        let shutdown = self.shared.shutdowns.begin();
        let queues: Vec<_> = self.shared.queues.lock().values().map(Arc::clone).collect();
        for queue in queues {
            let waiters = std::mem::take(&mut queue.state().waiters);
            for waiter in waiters.into_iter() {
                waiter.answer(Err(queue.shutting_down()));
            }
            queue.news.notify_one();
        }
        shutdown.tell();
        shutdown
    }
}
