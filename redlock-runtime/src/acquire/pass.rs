//! Giving a lock to one who waits in this process: a clerk's grant, or a holder's.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Begin, Unfit, grant};
use super::place::Waiter;
use super::queue::{Next, Seat};
use super::tenure::Tenure;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::release::Ownership;
use crate::renewal::Hold;

/// What became of a lock that was offered to a waiter.
pub(super) enum Given {
    Taken,
    /// Nothing of the lease was left; the lock was freed.
    TooLate(Waiter, Duration),
    /// The waiter has gone.
    Back(Tenure),
}

/// Makes a waiter the holder. `granted`: when its hold begins, if not with the lease.
pub(super) fn give(
    engine: &Arc<Engine>,
    seat: &Seat,
    tenure: Tenure,
    waiter: Waiter,
    granted: Option<Moment>,
) -> Given {
    let granted = granted.unwrap_or(tenure.granted());
    let attempts = seat.queue.asked_for(&waiter);
    let begin = Begin { granted, is_taken: false };
    match grant(engine, seat.another(), tenure, waiter.terms, attempts, begin) {
        Ok(ownership) => match waiter.answer(Ok(ownership)).and_then(Ownership::reclaim) {
            Some(tenure) => Given::Back(tenure),
            None => Given::Taken,
        },
        Err(Unfit::TooLate { took }) => Given::TooLate(waiter, took),
        Err(Unfit::Uncared(error)) => {
            waiter.answer(Err(error));
            Given::Taken
        }
    }
}

/// What became of a tenure that its holder let go of.
pub(crate) enum Passed {
    /// Somebody of this process has it, or the clerk sees to it.
    On,
    /// Nobody waits here.
    Nobody(Tenure),
}

/// Passes a lock that is held, and that its holder lets go of, on to the next one who waits here.
pub(crate) fn pass_on(
    engine: &Arc<Engine>,
    seat: &Seat,
    hold: &Hold,
    mut tenure: Tenure,
) -> Passed {
    let now = engine.clock().now();
    loop {
        match seat.next(hold, tenure, now) {
            Next::Nobody(left) => return Passed::Nobody(left),
            Next::Clerk => return Passed::On,
            Next::Waiter(waiter, passed) => {
                match give(engine, seat, passed, waiter, Some(now)) {
                    Given::Taken => return Passed::On,
                    // The lease was over, and is freed: they start again.
                    Given::TooLate(waiter, _) => {
                        seat.put_back(waiter);
                        seat.queue.news.notify_one();
                        return Passed::On;
                    }
                    Given::Back(unwanted) => tenure = unwanted,
                }
            }
        }
    }
}
