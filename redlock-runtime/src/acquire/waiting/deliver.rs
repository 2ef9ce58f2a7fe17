//! Delivers a granted lock to the first waiter.

use std::sync::Arc;

use super::context::PollerContext;
use crate::acquire::attempt::{Ungranted, attempt};
use crate::acquire::observed::Observed;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::handoff::{self, Delivery};
use crate::hold::{Tenure, Terms};
use crate::local_queue::Waiter;
use crate::release;

/// Which waiter gets the lock next.
enum Receiver {
    Waiter(Waiter),
    /// No waiter yet: a claim first has to make the lease as long as the first waiter wants it.
    AfterClaim(Terms),
    Nobody,
}

/// Delivers the lock with the lease that its waiter wants. `may_claim`: the server can extend the
/// lease of an owner that holds the lock already. `Some`: a claim failed, and the next attempt is
/// due then.
pub(super) async fn deliver(
    poller: &mut PollerContext,
    mut tenure: Tenure,
    may_claim: bool,
) -> Option<Moment> {
    loop {
        let waiter = match receiver(poller, &tenure, may_claim) {
            Receiver::Waiter(waiter) => waiter,
            Receiver::Nobody => {
                release::free(&poller.engine, &poller.queue, &tenure);
                return None;
            }
            Receiver::AfterClaim(terms) => {
                match claim(poller, tenure, terms).await {
                    Ok(claimed) => tenure = claimed,
                    Err(ask_at) => return ask_at,
                }
                continue;
            }
        };
        match handoff::give_to_waiter(&poller.engine, &poller.queue, tenure, waiter, None) {
            Delivery::Done => poller.observed = Observed::default(),
            Delivery::TooLate(waiter, took) => poller.too_late(waiter, took),
            Delivery::Returned(unwanted) => {
                tenure = unwanted.tenure;
                continue;
            }
        }
        return None;
    }
}

fn receiver(poller: &PollerContext, tenure: &Tenure, may_claim: bool) -> Receiver {
    let now = poller.now();
    let mut state = poller.local_queue().state();
    let Some(terms) = state.first().map(|waiter| waiter.terms) else { return Receiver::Nobody };
    let is_known = terms.min_hold.is_zero() || tenure.is_answered();
    if is_known && tenure.suits(terms.lease(), now) {
        state.promise().map_or(Receiver::Nobody, Receiver::Waiter)
    } else if may_claim && tenure.may_become(terms.lease()) {
        Receiver::AfterClaim(terms)
    } else {
        // Another waiter has come to the front meanwhile, and wants a lease of another length.
        Receiver::Nobody
    }
}

/// Extends a lock that is held already to a full lease of the length wanted now. `Err`: when to
/// make the next attempt, if not at once.
async fn claim(
    poller: &mut PollerContext,
    tenure: Tenure,
    terms: Terms,
) -> Result<Tenure, Option<Moment>> {
    let claim = Claim { expire: terms.lease(), ..tenure.claim.clone() };
    let engine = Arc::clone(&poller.engine);
    let (now, within) = (poller.now(), poller.acquire_within());
    let attempt = attempt(&engine, &*engine.backend, &claim, terms.template, now, within);
    match poller.patiently(attempt).await {
        Ok(granted) => Ok(tenure.claimed(granted)),
        Err(Ungranted::Busy { answer, .. }) => {
            // This owner no longer held the lock: the poller starts again with an attempt.
            poller.busy(answer);
            // A replica that became the master may still have its entry in the queue.
            release::leave(&engine, claim, None);
            Err(None)
        }
        Err(Ungranted::Failed(fault)) => {
            if !fault.is_unknown {
                release::free(&engine, &poller.queue, &tenure);
            }
            let pause = poller.failed(fault);
            Err(Some(poller.now().plus(pause)))
        }
    }
}
