//! One hold of several keys.

use std::sync::Arc;

use super::grant::NotHeld;
use super::ownership::{HeldKey, Ownership};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::fencing::FencingToken;
use crate::hold::{Begin, ConfirmedLease, FurtherKeys, Granted, Hold, Terms};
use crate::shield::tell;
use crate::validity;

/// Why keys that were held one by one have become no hold together. All of them are released.
pub(crate) enum NotJoined {
    /// The lease of this one was lost.
    Lost(Arc<Hold>),
    NotHeld(NotHeld),
}

/// Makes one hold of keys that are held one by one, in the order of keys. No counter of them is
/// below `fencing_token`.
pub(crate) fn join(
    engine: &Arc<Engine>,
    mut held: Vec<Ownership>,
    fencing_token: FencingToken,
    terms: Terms,
) -> Result<Ownership, NotJoined> {
    let at = engine.clock().now();
    let mut lost = None;
    // All of them end, also those after one that was lost.
    for one in &mut held {
        if !one.end_hold(fencing_token) {
            lost.get_or_insert_with(|| Arc::clone(one.hold()));
        }
    }
    if let Some(lost) = lost {
        return Err(NotJoined::Lost(lost));
    }
    let keys = held.into_iter().filter_map(Ownership::into_held).collect();
    let begin = Begin { at, is_taken: false };
    hold_together(engine, keys, terms, begin).map_err(NotJoined::NotHeld)
}

/// Makes the caller of `terms` the holder of all of these keys, which have the same fencing token.
/// From here on they are renewed together.
pub(crate) fn hold_together(
    engine: &Arc<Engine>,
    keys: Vec<HeldKey>,
    terms: Terms,
    begin: Begin,
) -> Result<Ownership, NotHeld> {
    // A lease that ends later may have to stop earlier: its margins grow with its length.
    let stops = |confirmed: &ConfirmedLease| validity::stop(confirmed.sent, confirmed.lease);
    let confirmed = keys.iter().map(|(_, tenure)| tenure.confirmed).min_by_key(stops);
    let server_end = keys.iter().map(|(_, tenure)| tenure.server_end()).max();
    let server_end = server_end.unwrap_or(Moment::ZERO);
    let mut keys = keys.into_iter();
    let (Some((queue, tenure)), Some(confirmed)) = (keys.next(), confirmed) else {
        unreachable!("a hold has a key")
    };
    let further: Vec<HeldKey> = keys.collect();
    let claims = further.iter().map(|(_, tenure)| tenure.claim.clone()).collect();
    let listeners = further.iter().map(|(queue, _)| queue.listener()).collect();
    let (client, listener) = (&engine.holding, queue.listener());
    let hold = Hold::new(client, terms, &tenure, confirmed, begin, listener);
    let hold = Arc::new(hold.with_further(FurtherKeys { claims, listeners, server_end }));
    for queue in std::iter::once(&queue).chain(further.iter().map(|(queue, _)| queue)) {
        queue.now_holds(&hold);
    }
    let scheduler = engine.scheduler();
    let granted = Granted { hold: Arc::clone(&hold), scheduler: Arc::clone(&scheduler), tenure };
    let ownership = Ownership::new(engine, queue, granted).with_further(further);
    // Where it fails, the drop of `ownership` releases all of them.
    if hold.withdraw_if_late() {
        return Err(NotHeld::TooLate { took: hold.held_for() });
    }
    scheduler.register(&hold).map_err(NotHeld::Unscheduled)?;
    let (keys, waited) = (hold.key_names(), hold.waited());
    tell!(debug, ?keys, fencing_token = %hold.fencing_token, ?waited, "locks acquired together");
    Ok(ownership)
}
