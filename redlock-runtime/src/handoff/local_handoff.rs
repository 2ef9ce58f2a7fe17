//! Giving a lock to one who waits in this process: a poller's grant, or a holder's.

use std::sync::Arc;
use std::time::Duration;

use super::ownership::Ownership;
use crate::acquire::{Begin, NotGranted, grant};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{Hold, Tenure};
use crate::local_queue::{QueueHandle, Successor, Waiter};

/// What became of a lock that was offered to a waiter.
pub(crate) enum Given {
    Taken,
    /// Nothing of the lease was left; the lock was freed.
    TooLate(Waiter, Duration),
    /// The waiter has gone.
    Back(Tenure),
}

/// Makes a waiter the holder. `granted`: when its hold begins, if not with the lease.
pub(crate) fn give(
    engine: &Arc<Engine>,
    handle: &QueueHandle,
    tenure: Tenure,
    waiter: Waiter,
    granted: Option<Moment>,
) -> Given {
    let granted = granted.unwrap_or(tenure.granted());
    let attempts = handle.queue.asked_for(&waiter);
    let begin = Begin { granted, is_taken: false };
    match grant(engine, handle.another(), tenure, waiter.terms, attempts, begin) {
        Ok(ownership) => match waiter.answer(Ok(ownership)).and_then(Ownership::reclaim) {
            Some(tenure) => Given::Back(tenure),
            None => Given::Taken,
        },
        Err(NotGranted::TooLate { took }) => Given::TooLate(waiter, took),
        Err(NotGranted::Unscheduled(error)) => {
            waiter.answer(Err(error));
            Given::Taken
        }
    }
}

/// What became of a tenure that its holder let go of.
pub(crate) enum Passed {
    /// Somebody of this process has it, or the poller sees to it.
    On,
    /// Nobody waits here.
    Nobody(Tenure),
}

/// Passes a lock that is held, and that its holder lets go of, on to the next one who waits here.
pub(crate) fn pass_on(
    engine: &Arc<Engine>,
    handle: &QueueHandle,
    hold: &Hold,
    mut tenure: Tenure,
) -> Passed {
    let now = engine.clock().now();
    loop {
        match handle.next(hold, tenure, now) {
            Successor::Nobody(left) => return Passed::Nobody(left),
            Successor::Poller => return Passed::On,
            Successor::Waiter(waiter, passed) => {
                match give(engine, handle, passed, waiter, Some(now)) {
                    Given::Taken => return Passed::On,
                    // The lease was over, and is freed: they start again.
                    Given::TooLate(waiter, _) => {
                        handle.put_back(waiter);
                        handle.queue.news.notify_one();
                        return Passed::On;
                    }
                    Given::Back(unwanted) => tenure = unwanted,
                }
            }
        }
    }
}
