//! Which leases are renewed by one command. Pure.

use std::sync::Arc;
use std::time::Duration;

use super::record::Hold;

/// Keys in one script: enough to save round trips, few enough not to block the server.
pub(super) const BATCH: usize = 100;

/// Times of equal magnitude differ by less than a factor of two.
pub(super) fn magnitude(time: Duration) -> u32 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1).ilog2()
}

/// By how much a renewal may be early in order to join a batch of others.
pub(super) fn may_join_early_by(hold: &Hold) -> Duration {
    hold.leeway() / 4
}

/// By how much a renewal may be early because its last batch was full.
pub(super) fn early_after_full_batch(hold: &Hold) -> Duration {
    hold.leeway() * 3 / 4
}

/// Splits the holds into batches of at most [`BATCH`] keys; a hold with more has one of its own.
pub(super) fn batches(holds: Vec<Arc<Hold>>) -> Vec<Vec<Arc<Hold>>> {
    let (mut batches, mut keys) = (vec![Vec::new()], 0);
    for hold in holds {
        if keys > 0 && keys + hold.key_count() > BATCH {
            batches.push(Vec::new());
            keys = 0;
        }
        keys += hold.key_count();
        batches.last_mut().unwrap_or_else(|| unreachable!("there is one")).push(hold);
    }
    batches
}
