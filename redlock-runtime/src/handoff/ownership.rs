//! The one handle whose drop frees a lock.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::sync::oneshot;

use super::local_handoff::{Passed, pass_on};
use crate::engine::Engine;
use crate::hold::{Hold, Scheduler, Tenure};
use crate::local_queue::QueueHandle;
use crate::release::{ReleaseFuture, ReleaseTask, inline};
use crate::shield::tell;
use crate::state::Released;

/// Owns a lock. Dropping it releases the lock in the background, from any place: it sends one
/// message, needs no runtime, and never blocks.
pub(crate) struct Ownership {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
    scheduler: Arc<Scheduler>,
    /// `None`: let go of already.
    rest: Option<HeldTenure>,
}

struct HeldTenure {
    handle: QueueHandle,
    tenure: Tenure,
}

impl Ownership {
    pub(crate) fn new(
        hold: Arc<Hold>,
        engine: Arc<Engine>,
        scheduler: Arc<Scheduler>,
        handle: QueueHandle,
        tenure: Tenure,
    ) -> Self {
        Self { hold, engine, scheduler, rest: Some(HeldTenure { handle, tenure }) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Its caller learns of it, and has it from here on. `false`: it was taken back meanwhile, as
    /// the caller was not polled.
    pub(crate) fn take(&self) -> bool {
        let taken = self.hold.take();
        if taken == Some(true) {
            self.scheduler.look_at(&self.hold);
        }
        taken.is_some()
    }

    /// Releases the lock. The release goes on when the answer is not awaited to its end.
    pub(crate) fn release(mut self) -> ReleaseFuture {
        let Some(job) = self.let_go() else { return ReleaseFuture::Now(Released::Released) };
        if let Some(way) = self.engine.route() {
            return ReleaseFuture::here(inline::here(job, way));
        }
        let (reply, answer) = oneshot::channel();
        in_background(ReleaseTask { reply: Some(reply), ..job });
        ReleaseFuture::Kept(answer)
    }

    /// Releases the lock without waiting for an answer. The command has left, ahead of all that the
    /// caller sends next, when this returns `None`, or when what it returns is ready.
    pub(crate) fn release_in_background(mut self) -> Option<ReleaseFuture> {
        let job = self.let_go()?;
        match self.engine.route() {
            Some(way) if !self.engine.is_embedded() => Some(inline::unawaited(job, way)),
            _ => {
                in_background(job);
                None
            }
        }
    }

    /// Takes a lock back from a caller that went away before it heard of it. `None`: it was lost.
    pub(crate) fn reclaim(mut self) -> Option<Tenure> {
        let HeldTenure { handle, mut tenure } = self.rest.take()?;
        let is_held = self.hold.end();
        self.scheduler.forget(&self.hold);
        if is_held {
            tenure.renewed(self.hold.confirmed());
            return Some(tenure);
        }
        handle.let_go(&self.hold);
        let until = self.hold.server_end();
        in_background(ReleaseTask::new(&self.engine, &tenure, until, Some(handle)));
        None
    }

    /// Ends the hold. `Some`: the lock has to be freed on the server; otherwise somebody else of
    /// this process has it.
    fn let_go(&mut self) -> Option<ReleaseTask> {
        let HeldTenure { handle, mut tenure } = self.rest.take()?;
        let is_held = self.hold.end();
        self.scheduler.forget(&self.hold);
        let until = self.hold.server_end();
        if is_held && self.engine.fifo_queue().is_some() {
            tenure.renewed(self.hold.confirmed());
            match pass_on(&self.engine, &handle, &self.hold, tenure) {
                Passed::On => {
                    // For its holder the lock is as released as any.
                    let released = Released::Released;
                    tell!(debug, key = self.hold.claim.key.name(), ?released, "lock released");
                    return None;
                }
                Passed::Nobody(left) => tenure = left,
            }
        }
        handle.let_go(&self.hold);
        Some(ReleaseTask::new(&self.engine, &tenure, until, Some(handle)))
    }
}

/// Frees a lock that nobody wants any more.
pub(crate) fn free(engine: &Arc<Engine>, tenure: &Tenure) {
    in_background(ReleaseTask::new(engine, tenure, tenure.server_end(), None));
}

fn in_background(job: ReleaseTask) {
    let (engine, key) = (Arc::clone(&job.engine), job.claim.key.clone());
    let is_embedded = engine.is_embedded();
    let mut job = Box::pin(job.in_background());
    if is_embedded && job.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        // The answer of an embedded backend is there at once: no runtime was needed for it.
        return;
    }
    if let Err(error) = engine.executor().spawn(job) {
        tell!(warn, key = key.name(), %error, "lock not released");
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if self.rest.is_some() && self.hold.is_forked() {
            // The parent has the lock, and a thread of it may have locked what this would lock.
            return std::mem::forget(self.rest.take());
        }
        // By way of the background thread: the runtime may be about to end, and its timers with it.
        if let Some(job) = self.let_go() {
            in_background(job);
        }
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ownership").field(&self.hold).finish()
    }
}
