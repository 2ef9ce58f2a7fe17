//! The one handle whose drop frees a lock.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::sync::oneshot;

use super::flush::Unsent;
use super::job::ReleaseJob;
use crate::acquire::Seat;
use crate::backend::Fault;
use crate::engine::Engine;
use crate::renewal::{Hold, Scheduler};
use crate::state::Released;

/// What a release found, when it comes.
pub(crate) type Answer = oneshot::Receiver<Result<Released, Fault>>;

/// Owns a lock. Dropping it releases the lock in the background, from any place: it sends one
/// message, needs no runtime, and never blocks.
pub(crate) struct Ownership {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
    scheduler: Arc<Scheduler>,
    seat: Option<Seat>,
    is_released: bool,
}

impl Ownership {
    pub(crate) fn new(
        hold: Arc<Hold>,
        engine: Arc<Engine>,
        scheduler: Arc<Scheduler>,
        seat: Seat,
    ) -> Self {
        Self { hold, engine, scheduler, seat: Some(seat), is_released: false }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Releases the lock. The release goes on when the answer is not awaited.
    pub(crate) fn release(mut self) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.let_go(Some(reply));
        answer
    }

    fn let_go(&mut self, reply: Option<oneshot::Sender<Result<Released, Fault>>>) {
        if std::mem::replace(&mut self.is_released, true) {
            return;
        }
        self.hold.end();
        self.scheduler.forget(&self.hold);
        let is_embedded = self.engine.is_embedded();
        let job = ReleaseJob {
            engine: Arc::clone(&self.engine),
            claim: self.hold.claim.clone(),
            until: self.hold.server_end(),
            reply,
            pending: self.engine.pending.begin(),
            unsent: (!is_embedded).then(Unsent::here),
            seat: self.seat.take(),
        };
        let mut job = Box::pin(job.run());
        if is_embedded && job.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            // The answer of an embedded backend is there at once: no runtime was needed for it.
            return;
        }
        if let Err(error) = self.engine.host().spawn(job) {
            tracing::warn!(key = self.hold.claim.key.name(), %error, "lock not released");
        }
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.let_go(None);
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ownership").field(&self.hold).finish()
    }
}
