//! Acquires one key: the caller makes an attempt of its own where no other caller of this process
//! has the lock or waits for it, and no other process has competed for it since the last grant.
//! Otherwise it waits in the local queue.

use std::sync::Arc;

use super::attempt::LAST_ATTEMPT;
use super::direct_attempt::{DirectAttempt, DirectOutcome};
use super::inside::inside;
use super::order::{Acquisition, Order};
use super::try_once::try_once;
use super::wait_handle::{enter, enter_after};
use super::{nesting, not_all};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::Terms;
use crate::options::Wait;

/// Acquires the lock of a call for one key.
pub(super) async fn acquire(engine: &Arc<Engine>, order: &Order) -> Acquisition {
    let (started, wait_limit) = (engine.clock().now(), order.policy.wait());
    nesting::note_nesting(engine, order.template, [&order.key], wait_limit);
    let call = order.counted();
    let outer = order.outer_holds(engine);
    let (terms, end) = (order.terms(started, &outer), order.wait_ends(started));
    let granted = if outer.is_empty() {
        acquire_one(engine, order, &terms, end, Moment::NEVER).await
    } else {
        let acquire = Box::pin(acquire_one(engine, order, &terms, end, Moment::NEVER));
        Box::pin(inside(engine, order, &outer, acquire)).await
    };
    call.end(granted.as_ref().map(|ownership| ownership.hold().waited()));
    granted.map_err(|error| nesting::with_holds(engine, order, error))
}

/// Acquires the lock for one call, or for one key of a call, whose wait is over at `end`. `limit`:
/// by when the attempt of a call with `Wait::Never` has to be answered.
pub(super) async fn acquire_one(
    engine: &Arc<Engine>,
    order: &Order,
    terms: &Terms,
    mut end: Moment,
    limit: Moment,
) -> Acquisition {
    let (mut begun, mut is_last) = (terms.started, false);
    loop {
        engine.check_shutdown(terms.shutdowns_before, order.key.name())?;
        let mut ownership = match order.policy.wait() {
            // Boxed: the futures of callers that wait would be larger.
            Wait::Never => Box::pin(try_once(engine, order, terms, begun, limit)).await?,
            _ => acquire_or_wait(engine, order, terms, begun, end).await?,
        };
        if take(engine, terms, order.key.name(), &mut ownership)? {
            return Ok(ownership);
        } else if is_last {
            return Err(not_all::not_polled(&order.key));
        }
        begun = engine.clock().now();
        // The last attempt is made even if the wait is over by then.
        (is_last, end) = (begun >= end, end.max(begun));
    }
}

/// The caller takes what it was granted, unless a shutdown has begun meanwhile: then the lock is
/// given back, so that no body begins during the shutdown. `false`: the lock was taken back because
/// this task was not polled for too long; it waits again. `key`: what the caller wants.
pub(super) fn take(
    engine: &Engine,
    terms: &Terms,
    key: &str,
    ownership: &mut Ownership,
) -> Result<bool, LockError> {
    if !ownership.take() {
        return Ok(false);
    }
    // The grant still counts as pending. A shutdown begins before it looks at the count, so that
    // one of the two sees the other.
    engine
        .check_shutdown(terms.shutdowns_before, key)
        .inspect_err(|_| ownership.hold().give_back())?;
    ownership.count_as_lock();
    Ok(true)
}

/// Makes an attempt first if the local queue lets it; waits in that queue otherwise.
/// `begun`: when this attempt begins, which was read just before.
async fn acquire_or_wait(
    engine: &Arc<Engine>,
    order: &Order,
    terms: &Terms,
    begun: Moment,
    end: Moment,
) -> Acquisition {
    let queue = engine.local_queue(&order.key, order.kind);
    let Some(guard) = queue.attempt_first(begun) else {
        return enter(engine, queue, *terms, end, None)?.await;
    };
    let mut attempt = DirectAttempt::first(queue, Some(guard), begun);
    loop {
        let within = engine.acquire_timeout.min(end.plus(LAST_ATTEMPT).since(attempt.begun));
        let claim = order.claim(engine, terms);
        let (refused, observed) = match attempt.make(engine, terms, &claim, within).await? {
            DirectOutcome::Granted(ownership) => return Ok(ownership),
            DirectOutcome::Refused(refused, observed) => (refused, observed),
        };
        if !refused.may_repeat(engine, terms, &observed, end) {
            return enter_after(engine, (order, terms), refused, end, observed)?.await;
        }
        attempt = refused.again(engine);
    }
}
