//! Makes a caller of this process the holder of a lock that this process has.

use std::sync::Arc;
use std::time::Duration;

use super::lost::release_lost;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::{Granted, Hold, NewHold, Tenure, Terms};
use crate::local_queue::QueueHandle;
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
    let hold = Arc::new(Hold::new(new_hold(engine, queue, &tenure, terms, begin)));
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

/// What the hold of one key is made of, or that of several keys, of which this is the first.
pub(super) fn new_hold(
    engine: &Engine,
    queue: &QueueHandle,
    tenure: &Tenure,
    terms: Terms,
    begin: Begin,
) -> NewHold {
    NewHold {
        client: Arc::clone(&engine.holding),
        terms,
        claim: tenure.claim.clone(),
        further: None,
        fencing_token: tenure.fencing_token(),
        confirmed: tenure.confirmed,
        begun: begin.at,
        is_taken: begin.is_taken,
        news: Arc::clone(&queue.news),
    }
}
