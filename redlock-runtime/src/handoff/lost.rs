//! Locks that do not reach their caller, or were lost before: they are released.

use std::sync::Arc;

use crate::engine::Engine;
use crate::hold::Granted;
use crate::local_queue::QueueHandle;
use crate::release::{self, ReleaseTask};

/// Releases a lock whose lease is not relied on.
pub(super) fn release_lost(engine: &Arc<Engine>, queue: &QueueHandle, granted: &Granted) {
    granted.scheduler.end(&granted.hold, engine.clock().now());
    release_ended(engine, queue, granted);
}

/// Releases a lock whose hold has ended.
pub(super) fn release_ended(engine: &Arc<Engine>, queue: &QueueHandle, granted: &Granted) {
    let server_end = granted.hold.server_end();
    // It counts before the waiters of this process are told.
    let task = ReleaseTask::new(engine, &granted.tenure, server_end, queue.another());
    queue.let_go(&granted.hold);
    drop(granted.hold.take_pending());
    release::in_background(task);
}
