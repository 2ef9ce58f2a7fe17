//! Makes a caller of this process the holder of a lock that this process has.

use std::sync::Arc;
use std::time::Duration;

use super::lost::release_lost;
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::{Begin, Granted, Hold, Tenure, Terms};
use crate::local_queue::QueueHandle;
use crate::shield::tell;

/// Why a lock that the server granted did not reach its caller. The lock is released.
pub(crate) enum NotHeld {
    /// The lease was used up when the answer came.
    TooLate { took: Duration },
    /// The lease could not be registered for renewal.
    Unscheduled(LockError),
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
) -> Result<Granted, NotHeld> {
    let (client, confirmed, listener) = (&engine.holding, tenure.confirmed, queue.listener());
    let hold = Arc::new(Hold::new(client, terms, &tenure, confirmed, begin, listener));
    let scheduler = engine.scheduler();
    queue.now_holds(&hold);
    let granted = Granted { hold, scheduler, tenure };
    let hold = &granted.hold;
    let registered = if hold.withdraw_if_late() {
        Err(NotHeld::TooLate { took: hold.held_for() })
    } else {
        granted.scheduler.register(hold).map_err(NotHeld::Unscheduled)
    };
    if let Err(reason) = registered {
        release_lost(engine, queue, &granted);
        return Err(reason);
    }
    let (key, fencing_token, waited) = (hold.claim.key.name(), hold.fencing_token, hold.waited());
    tell!(debug, key, %fencing_token, ?waited, attempts, "lock acquired");
    Ok(granted)
}
