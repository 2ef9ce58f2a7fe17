//! `Ownership`: the only handle whose drop frees a lock.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::local_handoff::pass_on;
use crate::engine::Engine;
use crate::hold::{Granted, Hold, Scheduler, Tenure};
use crate::local_queue::QueueHandle;
use crate::release::{self, ReleaseFuture, ReleaseTask};
use crate::shield::tell;
use crate::state::Released;

/// Owns a lock. Dropping it releases the lock in the background, from any thread: the drop sends
/// one message, needs no runtime, and never blocks.
pub(crate) struct Ownership {
    engine: Arc<Engine>,
    hold: Arc<Hold>,
    scheduler: Arc<Scheduler>,
    /// `None`: the lock was released or handed on already.
    held: Option<(QueueHandle, Tenure)>,
}

impl Ownership {
    pub(crate) fn new(engine: &Arc<Engine>, queue: QueueHandle, granted: Granted) -> Self {
        let Granted { hold, scheduler, tenure } = granted;
        Self { engine: Arc::clone(engine), hold, scheduler, held: Some((queue, tenure)) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The caller learns of the lock, and has it from here on. `false`: the lock was taken back
    /// meanwhile because the caller was not polled.
    pub(crate) fn take(&self) -> bool {
        let taken = self.hold.take();
        if taken == Some(true) {
            self.scheduler.look_at(&self.hold);
        }
        taken.is_some()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Ends the hold, and leaves the lock on the server to the caller. `None`: the lease was lost,
    /// and the lock is released.
    pub(crate) fn give_up(mut self) -> Option<(Arc<Hold>, QueueHandle, Tenure)> {
        if !self.scheduler.end(&self.hold) {
            return None;
        }
        let (queue, tenure) = self.held.take()?;
        Some((Arc::clone(&self.hold), queue, tenure))
    }

    /// Releases the lock. The release goes on even if its future is dropped.
    pub(crate) fn release(mut self) -> ReleaseFuture {
        let Some(task) = self.let_go() else { return ReleaseFuture::Now(Released::Released) };
        if let Some(route) = self.engine.route() {
            return ReleaseFuture::here(release::inline(task, route));
        }
        let (reply, answer) = oneshot::channel();
        release::in_background(ReleaseTask { reply: Some(reply), ..task });
        ReleaseFuture::Kept(answer)
    }

    /// Releases the lock without waiting for an answer. When this returns `None`, or when the
    /// returned future is ready, the command has left ahead of whatever the caller sends next.
    pub(crate) fn release_in_background(mut self) -> Option<ReleaseFuture> {
        let task = self.let_go()?;
        match self.engine.route() {
            Some(route) if !self.engine.is_embedded() => Some(release::unawaited(task, route)),
            _ => {
                release::in_background(task);
                None
            }
        }
    }

    /// Ends the hold. `Some`: the lock has to be freed on the server; otherwise another caller of
    /// this process has it.
    fn let_go(&mut self) -> Option<ReleaseTask> {
        let (queue, mut tenure) = self.held.take()?;
        let retain_until = self.hold.retained_until();
        let is_held = self.scheduler.end(&self.hold);
        let until = self.hold.server_end();
        if is_held && retain_until.is_none() && self.engine.fifo_queue().is_some() {
            tenure.renewed(self.hold.confirmed());
            let Some(left) = pass_on(&self.engine, &queue, &self.hold, tenure) else {
                // The next caller has the lock: for its former holder, it counts as released.
                let released = Released::Released;
                tell!(debug, key = self.hold.claim.key.name(), ?released, "lock released");
                return None;
            };
            tenure = left;
        }
        queue.let_go(&self.hold);
        let task = ReleaseTask::new(&self.engine, &tenure, until, Some(queue));
        Some(ReleaseTask { retain_until, ..task })
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if self.held.is_some() && self.hold.is_forked() {
            // The parent has the lock, and another of its threads may hold a mutex that this drop
            // would lock.
            return std::mem::forget(self.held.take());
        }
        // The background thread sends it: the runtime may be about to end, and its timers with it.
        if let Some(task) = self.let_go() {
            release::in_background(task);
        }
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ownership").field(&self.hold).finish()
    }
}
