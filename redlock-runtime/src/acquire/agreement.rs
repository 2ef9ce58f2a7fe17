//! One fencing token for several keys, and leases that begin together.

use std::pin::Pin;
use std::sync::Arc;

use crate::backend::{Claim, Fault, Found};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::fencing::FencingToken;
use crate::handoff::Ownership;
use crate::together::together;

/// The largest fencing token of these keys, once the counter of each key is not below it. So a
/// later holder of any of them gets a larger one. Leases that are not full any more are renewed at
/// the same time. Tried again until `end`; `None`: a key was lost.
pub(super) async fn agree(
    engine: &Arc<Engine>,
    held: &[Ownership],
    end: Moment,
) -> Result<Option<FencingToken>, Fault> {
    let clock = engine.clock();
    let mut failures = 0;
    loop {
        let fencing_token = held.iter().map(|one| one.hold().fencing_token).max();
        let Some(fencing_token) = fencing_token else { return Ok(None) };
        match raise_and_renew(engine, held, fencing_token).await {
            Ok(are_ours) => return Ok(are_ours.then_some(fencing_token)),
            Err(fault) => {
                let retry_at = clock.now().plus(backoff::failed(failures, fastrand::f64()));
                if fault.is_final || retry_at >= end {
                    return Err(fault);
                }
                clock.sleep_until(retry_at).await;
                failures += 1;
            }
        }
    }
}

/// Whether the keys are held, as far as the answers say.
async fn raise_and_renew(
    engine: &Arc<Engine>,
    held: &[Ownership],
    fencing_token: FencingToken,
) -> Result<bool, Fault> {
    type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Option<Found>>, Fault>> + Send + 'a>>;
    let (backend, within) = (&engine.backend, engine.reply_timeout);
    let is_below = |one: &&Ownership| {
        one.tenure().is_none_or(|tenure| tenure.drawn().reserved < fencing_token)
    };
    let raise = |one: &Ownership| -> Answer<'_> {
        let claim = one.hold().claim.clone();
        Box::pin(async move {
            let found = backend.raise(&claim, fencing_token, within).await;
            found.map(|found| vec![Some(found)])
        })
    };
    let mut questions: Vec<Answer<'_>> = held.iter().filter(is_below).map(raise).collect();
    let raised = questions.len();
    let now = engine.clock().now();
    if !held.iter().all(|one| is_full(one, now)) {
        let claims: Vec<Claim> = held.iter().map(|one| one.hold().claim.clone()).collect();
        questions.push(Box::pin(async move { backend.renew(&claims, within).await }));
    }
    let mut answers = together(questions).await;
    // A renewal that failed is made up for by the scheduler.
    let renewed = answers.split_off(raised).pop().and_then(Result::ok).unwrap_or_default();
    for (one, _) in held.iter().zip(&renewed).filter(|(_, found)| **found == Some(Found::Ours)) {
        one.hold().extend(now);
    }
    let raised = answers.into_iter().collect::<Result<Vec<_>, Fault>>()?;
    let is_lost = |found: &Option<Found>| matches!(found, Some(Found::Gone | Found::Stolen));
    Ok(!raised.iter().flatten().chain(&renewed).any(is_lost))
}

/// Is nine tenths of the lease left?
fn is_full(one: &Ownership, now: Moment) -> bool {
    let (confirmed, expire) = (one.hold().confirmed(), one.hold().claim.expire);
    confirmed.sent.plus(confirmed.lease) >= now.plus(expire * 9 / 10)
}
