//! One fencing token for several keys, and leases that begin together.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Fault, Found};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::fencing::FencingToken;
use crate::handoff::Ownership;
use crate::together::together;

/// The largest fencing token of these keys, once the counter of each key is not below it. So a
/// later holder of any of them gets a larger one. Leases that are no longer full are renewed at
/// the same time. Tried again until `end`, or for as long as the client waits in an outage, and for
/// no longer than `within` says each time. The inner `Err`: this key was lost; the outer one: which
/// key it was that failed.
pub(super) async fn agree<'a>(
    engine: &Arc<Engine>,
    held: &'a [Ownership],
    within: impl Fn() -> Duration,
    end: Moment,
) -> Result<Result<FencingToken, &'a Ownership>, Failed<'a>> {
    let clock = engine.clock();
    let given_up = engine.outage_wait.map_or(Moment::NEVER, |limit| clock.now().plus(limit));
    let mut failures = 0;
    loop {
        let fencing_token = held.iter().map(|one| one.hold().fencing_token).max();
        let Some(fencing_token) = fencing_token else { unreachable!("a call has a key") };
        match raise_and_renew(engine, held, fencing_token, within()).await {
            Ok(()) => {
                let lost = held.iter().find(|one| one.hold().is_over());
                return Ok(lost.map_or(Ok(fencing_token), Err));
            }
            Err(failed) => {
                let now = clock.now();
                let retry_at = now.plus(backoff::failed(failures, fastrand::f64()));
                if failed.fault.is_final || retry_at >= end || now >= given_up {
                    return Err(failed);
                }
                clock.sleep_until(retry_at).await;
                failures += 1;
            }
        }
    }
}

/// A command about one of the keys has failed.
pub(super) struct Failed<'a> {
    pub(super) one: &'a Ownership,
    pub(super) fault: Fault,
}

/// The holds learn what the answers say.
async fn raise_and_renew<'a>(
    engine: &Arc<Engine>,
    held: &'a [Ownership],
    fencing_token: FencingToken,
    within: Duration,
) -> Result<(), Failed<'a>> {
    type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Option<Found>>, Fault>> + Send + 'a>>;
    let backend = &engine.backend;
    let is_below = |one: &&Ownership| {
        one.tenure().is_none_or(|tenure| tenure.drawn().reserved < fencing_token)
    };
    let below: Vec<&'a Ownership> = held.iter().filter(is_below).collect();
    let raise = |one: &&Ownership| -> Answer<'_> {
        let claim = one.hold().claim.clone();
        Box::pin(async move {
            let found = backend.raise(&claim, fencing_token, within).await;
            found.map(|found| vec![Some(found)])
        })
    };
    let mut questions: Vec<Answer<'_>> = below.iter().map(raise).collect();
    let (now, mut claims, mut renewing) = (engine.clock().now(), Vec::new(), Vec::new());
    if !held.iter().all(|one| is_full(one, now)) {
        renewing.extend(held.iter().filter(|one| one.hold().begin_renewal(now, &mut claims)));
        questions.push(Box::pin(async move { backend.renew(&claims, within).await }));
    }
    let mut answers = together(questions).await;
    // A renewal that failed is made up for by the scheduler.
    let renewed = answers.split_off(below.len()).pop().and_then(Result::ok).unwrap_or_default();
    for (one, found) in renewing.into_iter().zip(renewed) {
        if found == Some(Found::Ours) {
            one.hold().extend(now);
        }
        note_loss(one, found);
    }
    let mut failed = None;
    for (one, raised) in below.into_iter().zip(answers) {
        match raised {
            Ok(found) => found.into_iter().for_each(|found| note_loss(one, found)),
            Err(fault) => failed = failed.or(Some(Failed { one, fault })),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn note_loss(one: &Ownership, found: Option<Found>) {
    if let Some(reason) = found.and_then(Found::loss) {
        one.hold().lose(reason);
    }
}

/// Is nine tenths of the lease left?
fn is_full(one: &Ownership, now: Moment) -> bool {
    let (confirmed, expire) = (one.hold().confirmed(), one.hold().claim.expire);
    confirmed.sent.plus(confirmed.lease) >= now.plus(expire * 9 / 10)
}
