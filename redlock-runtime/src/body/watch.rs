//! Watches a lease during the polls of a body: stops the body when the lease is over, and wakes it
//! then.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::reentrancy::HoldLink;
use crate::error::LockError;
use crate::hold::Hold;
use crate::shield::tell;

/// Polls steps of a body only while its lease holds.
pub(crate) struct Watch {
    link: Arc<HoldLink>,
    /// The body has been polled.
    has_begun: bool,
    /// Wakes the task when the lease ends, though the body itself may never wake again. `None`: the
    /// body has not waited for anything yet.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Watch {
    pub(crate) fn new(link: Arc<HoldLink>) -> Self {
        Self { link, has_begun: false, over: None }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.link.hold()
    }

    /// Drops the body, or what is left of it, inside of its hold: the destructors see the lease.
    pub(crate) fn drop_body(&self, drop: impl FnOnce()) {
        self.link.run_within(drop);
    }

    /// Runs one step of the body, or says why no further step may run.
    ///
    /// The clock is read before the step: a process that was frozen past its lease runs no further
    /// step, whatever its timers say.
    pub(crate) fn step<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LockError>> {
        self.may_go_on()?;
        self.has_begun = true;
        let progress = self.link.run_within(|| step(cx));
        if progress.is_ready() {
            // After a step that forked, both processes come here, and only the parent has the lock.
            self.hold().check_process()?;
        } else if self.poll_over(cx) {
            self.may_go_on()?;
        }
        progress.map(Ok)
    }

    /// Polls for the end of the hold, which registers the waker after the body has registered its
    /// own. `true`: the hold is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        let over = self.over.get_or_insert_with(|| {
            let hold = Arc::clone(self.link.hold());
            Box::pin(async move { hold.over().await })
        });
        over.as_mut().poll(cx).is_ready()
    }

    fn may_go_on(&self) -> Result<(), LockError> {
        let of_body = |why: LockError| if self.has_begun { why.of_begun_body() } else { why };
        let verdict = self.hold().check().map_err(of_body);
        if let Err(why) = &verdict {
            tell!(debug, key = self.hold().claim.key.name(), %why, "body stopped");
        }
        verdict
    }
}

impl Drop for Watch {
    /// In the child of a fork, another thread of the parent may hold a mutex that this drop would
    /// lock.
    fn drop(&mut self) {
        if let Some(over) = self.over.take()
            && self.hold().is_forked()
        {
            std::mem::forget(over);
        }
    }
}
