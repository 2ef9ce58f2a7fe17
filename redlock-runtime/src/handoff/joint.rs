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

/// Makes one hold of keys that are held one by one, in the order of keys. No counter of them is
/// below `fencing_token`. If the lease of one was lost, all are released.
pub(crate) fn join(
    engine: &Arc<Engine>,
    mut held: Vec<Ownership>,
    fencing_token: FencingToken,
    terms: Terms,
) -> Result<Ownership, NotHeld> {
    let at = engine.clock().now();
    // All of them, also those after one that was lost.
    let lost =
        held.iter_mut().filter_map(|one| (!one.end_hold(fencing_token)).then_some(())).count();
    if lost > 0 {
        return Err(NotHeld::TooLate { took: at.since(terms.started) });
    }
    let keys = held.into_iter().filter_map(Ownership::into_held).collect();
    hold_together(engine, keys, terms, Begin { at, is_taken: false })
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
    let news = further.iter().map(|(queue, _)| Arc::clone(&queue.news)).collect();
    let hold = Hold::new(&engine.holding, terms, &tenure, confirmed, begin, &queue.news);
    let hold = Arc::new(hold.with_further(FurtherKeys { claims, news, server_end }));
    for queue in std::iter::once(&queue).chain(further.iter().map(|(queue, _)| queue)) {
        queue.now_holds(&hold);
    }
    let scheduler = engine.scheduler();
    let granted = Granted { hold: Arc::clone(&hold), scheduler: Arc::clone(&scheduler), tenure };
    let ownership = Ownership::new(engine, queue, granted).with_further(further);
    // Where it fails, the drop of `ownership` releases all of them.
    if hold.check().is_err() {
        return Err(NotHeld::TooLate { took: hold.held_for() });
    }
    scheduler.register(&hold).map_err(NotHeld::Unscheduled)?;
    let (keys, waited) = (hold.key_names(), hold.waited());
    tell!(debug, ?keys, fencing_token = %hold.fencing_token, ?waited, "locks acquired together");
    Ok(ownership)
}
