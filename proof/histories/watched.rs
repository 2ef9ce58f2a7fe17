//! A body that writes down every step it takes and its end, whatever ends it; and the release that
//! follows it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use redlock::{Lease, LockGuard};

use crate::log::{Event, Log, Moment, nanos, now};
use crate::wanted::Wanted;
use crate::worker::word;

/// Polls `body`, which runs under a lease, and logs for one call.
pub(crate) struct Watched<'a, F> {
    log: &'a Log,
    wanted: &'a Wanted,
    expire: Duration,
    lease: Option<Lease>,
    body: Pin<Box<F>>,
}

impl<'a, F: Future> Watched<'a, F> {
    pub(crate) fn new(log: &'a Log, wanted: &'a Wanted, expire: Duration, body: F) -> Self {
        Watched { log, wanted, expire, lease: None, body: Box::pin(body) }
    }

    /// Of each key that the lease names: one that it does not name is not held.
    fn log_grant(&self, lease: &Lease, at: Moment) {
        let granted = Event::Granted { fencing: lease.fencing_token().into() };
        let held = self.wanted.parts().iter().filter(|part| lease.keys().contains(&part.key));
        self.log.write_all(held.map(|part| (part.attempt.as_str(), granted.clone())), at);
    }

    /// The clock before the lease: the deadline that is logged never lies behind the true one.
    fn log_step(&self, lease: &Lease, at: Moment) {
        let remaining = lease.remaining();
        // The body is stopped a twentieth of the lease before its deadline.
        let left = nanos(remaining) + nanos(self.expire / 20);
        let deadline = (!remaining.is_zero()).then_some(at + left);
        self.wanted.log(self.log, at, &Event::Step { deadline });
    }
}

impl<F: Future> Future for Watched<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let at = now();
        if self.lease.is_none() {
            let lease = Lease::current().expect("a body runs under a lease");
            self.log_grant(&lease, at);
            self.lease = Some(lease);
        }
        if let Some(lease) = &self.lease {
            self.log_step(lease, at);
        }
        self.body.as_mut().poll(cx)
    }
}

impl<F> Drop for Watched<'_, F> {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.wanted.log(self.log, now(), &Event::Over);
        }
    }
}

/// Lets go, and writes down what that found.
pub(crate) async fn release(guard: LockGuard, log: &Log, wanted: &Wanted) {
    let found = match guard.release().await {
        Ok(found) => format!("{found:?}"),
        Err(error) => word(&error),
    };
    wanted.log(log, now(), &Event::Released { found });
}
