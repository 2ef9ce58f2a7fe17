//! Handles of a queue: the first makes the queue, and the last to be dropped removes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime;

use super::{ById, LocalQueue, LocalQueues, QueueHandle, QueueId};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::spare_memory::shrink_set;

impl LocalQueues {
    /// The queue of all callers of a key, or, for a shared kind, a queue for one caller.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: &LockKey,
        kind: Kind,
        clock: Option<runtime::Id>,
    ) -> QueueHandle {
        static NEXT_CALLER: AtomicU64 = AtomicU64::new(1);
        let is_alone = kind.is_shared();
        let caller = if is_alone { NEXT_CALLER.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let id = QueueId { key: key.clone(), clock, caller };
        let mut queues = self.queues.lock();
        if let Some(ById(known)) = queues.get(&id) {
            return QueueHandle::of(self, known);
        }
        let queue = Arc::new(LocalQueue::new(id, kind));
        queues.insert(ById(Arc::clone(&queue)));
        QueueHandle::of(self, &queue)
    }
}

impl QueueHandle {
    /// Another handle of the same queue.
    pub(crate) fn another(&self) -> Self {
        Self::of(&self.shared, &self.queue)
    }

    fn of(shared: &Arc<LocalQueues>, queue: &Arc<LocalQueue>) -> Self {
        queue.handles.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), queue: Arc::clone(queue) }
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        if self.queue.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut queues = self.shared.queues.lock();
        // Another caller may have joined and left since, and the set may have another queue of this
        // id.
        let id = &self.queue.id;
        let is_ours = queues.get(id).is_some_and(|ById(known)| Arc::ptr_eq(known, &self.queue));
        if is_ours && self.queue.handles.load(Ordering::Acquire) == 0 {
            let forgotten = queues.take(id);
            shrink_set(&mut queues);
            drop(queues);
            drop(forgotten);
        }
    }
}
