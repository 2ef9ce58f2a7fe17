//! Hands a lock to a caller of this process: a lock that the server granted, or one that its holder
//! releases.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::{Granted, Hold, NewHold, Tenure, Terms};
use crate::local_queue::{QueueHandle, Successor, Waiter};
use crate::release::{self, ReleaseTask};
use crate::shield::tell;

/// Why a lock that the server granted did not reach its caller. The lock is released.
pub(crate) enum NotGranted {
    /// The lease was used up when the answer came.
    TooLate { took: Duration },
    /// The lease could not be registered for renewal.
    Unscheduled(LockError),
}

/// How a hold begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    pub(crate) at: Moment,
    /// The caller is being polled. Otherwise it learns of the lock later, or never.
    pub(crate) is_taken: bool,
}

/// Makes the caller of `terms` the holder after `attempts` attempts. From here on the lease is
/// renewed.
pub(crate) fn grant(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    tenure: Tenure,
    terms: Terms,
    attempts: u32,
    begin: Begin,
) -> Result<Granted, NotGranted> {
    let hold = Arc::new(Hold::new(NewHold {
        client: Arc::clone(&engine.holding),
        terms,
        claim: tenure.claim.clone(),
        further: None,
        fencing_token: tenure.fencing_token(),
        confirmed: tenure.confirmed,
        begun: begin.at,
        is_taken: begin.is_taken,
        news: Arc::clone(&queue.news),
    }));
    let scheduler = engine.scheduler();
    queue.now_holds(&hold);
    let granted = Granted { hold, scheduler, tenure };
    let hold = &granted.hold;
    let registered = match hold.check() {
        Ok(()) => granted.scheduler.register(hold).map_err(NotGranted::Unscheduled),
        Err(_) => Err(NotGranted::TooLate { took: hold.held_for() }),
    };
    if let Err(reason) = registered {
        release_lost(engine, queue, &granted);
        return Err(reason);
    }
    let (key, fencing_token, waited) = (hold.claim.key.name(), hold.fencing_token, hold.waited());
    tell!(debug, key, %fencing_token, ?waited, attempts, "lock acquired");
    Ok(granted)
}

/// Takes a lock back from a caller that went away before it learned of it. `None`: the lock was
/// lost.
fn reclaim(engine: &Arc<Engine>, queue: &QueueHandle, mut granted: Granted) -> Option<Tenure> {
    if !granted.scheduler.end(&granted.hold, engine.clock().now()) {
        release_ended(engine, queue, &granted);
        return None;
    }
    drop(granted.hold.offer_ends());
    granted.tenure.renewed(granted.hold.confirmed(), granted.hold.server_end());
    Some(granted.tenure)
}

/// Releases a lock whose lease is not relied on.
fn release_lost(engine: &Arc<Engine>, queue: &QueueHandle, granted: &Granted) {
    granted.scheduler.end(&granted.hold, engine.clock().now());
    release_ended(engine, queue, granted);
}

fn release_ended(engine: &Arc<Engine>, queue: &QueueHandle, granted: &Granted) {
    queue.let_go(&granted.hold);
    let until = granted.hold.server_end();
    let task = ReleaseTask::new(engine, &granted.tenure, until, Some(queue.another()));
    drop(granted.hold.offer_ends());
    release::in_background(task);
}

/// The outcome of giving a lock to a waiter.
pub(crate) enum Delivery {
    Done,
    /// The lease was used up; the lock was released.
    TooLate(Waiter, Duration),
    /// The waiter has gone.
    Returned(Tenure),
}

/// Makes a waiter the holder. `at`: when its hold begins, if not with the lease.
pub(crate) fn deliver(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    tenure: Tenure,
    waiter: Waiter,
    at: Option<Moment>,
) -> Delivery {
    let at = at.unwrap_or(tenure.since());
    let attempts = queue.attempts_for(&waiter);
    let begin = Begin { at, is_taken: false };
    match grant(engine, queue, tenure, waiter.terms, attempts, begin) {
        Ok(granted) => {
            let unwanted = waiter.answer(Ok(granted));
            let returned = unwanted.and_then(|granted| reclaim(engine, queue, granted));
            returned.map_or(Delivery::Done, Delivery::Returned)
        }
        Err(NotGranted::TooLate { took }) => Delivery::TooLate(waiter, took),
        Err(NotGranted::Unscheduled(error)) => {
            waiter.answer(Err(error));
            Delivery::Done
        }
    }
}

/// Hands a lock that is released at `now` to the next waiter of this process. `Some`: no waiter
/// took it, and the caller has to free it.
pub(super) fn pass_on(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    hold: &Hold,
    mut tenure: Tenure,
    now: Moment,
) -> Option<Tenure> {
    loop {
        match queue.next(hold, tenure, now) {
            Successor::Nobody(left) => return Some(left),
            Successor::Poller => return None,
            Successor::Waiter(waiter, passed, _in_hand) => {
                tenure = hand_to(engine, queue, passed, waiter, now)?;
            }
        }
    }
}

/// Hands a lock to a waiter. `Some`: the waiter has gone.
fn hand_to(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    tenure: Tenure,
    waiter: Waiter,
    now: Moment,
) -> Option<Tenure> {
    match deliver(engine, queue, tenure, waiter, Some(now)) {
        Delivery::Done => None,
        // The lease was over and is being released: the waiters start again.
        Delivery::TooLate(waiter, _) => {
            queue.put_back(waiter);
            queue.news.notify_one();
            None
        }
        Delivery::Returned(unwanted) => Some(unwanted),
    }
}
