//! A call that does not wait.

use std::sync::Arc;
use std::time::Duration;

use super::direct_attempt::{DirectAttempt, DirectOutcome};
use super::observed::{CallTime, Observed};
use super::order::{Acquisition, Order};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::Terms;
use crate::local_queue::QueueHandle;

/// Makes one attempt, whether or not other callers wait. Another one follows if it may have
/// overtaken a release of this process that nobody awaits, or the clean-up of an abandoned call,
/// and some more after a split vote of several servers, with random pauses: otherwise all
/// competitors would leave the lock to each other. `limit`: when attempts have to be answered;
/// split votes have their time beyond it.
pub(super) async fn try_once(
    engine: &Arc<Engine>,
    order: &Order,
    terms: &Terms,
    begun: Moment,
    limit: Moment,
) -> Acquisition {
    let (mut attempts, mut has_followed) = (0, false);
    let (mut asked, mut seen) = (begun, Observed::default());
    let (mut answered, mut longest) = (None, Duration::ZERO);
    let mut within = engine.acquire_timeout.min(limit.since(begun));
    loop {
        attempts += 1;
        let queue = engine.local_queue(&order.key, order.kind);
        // Before the attempt: the release may be answered when the refusal arrives.
        let is_leaving = queue.is_leaving();
        let attempt = DirectAttempt::first(queue, None, asked);
        let claim = order.claim(engine, terms);
        let (attempt, observed) = match attempt.make(engine, terms, &claim, within).await? {
            DirectOutcome::Granted(ownership) => return Ok(ownership),
            DirectOutcome::Refused(attempt, observed) => (attempt, observed),
        };
        attempt.note_contention(engine, &observed);
        let DirectAttempt { queue, .. } = attempt;
        let now = engine.clock().now();
        seen = observed.after(seen, now);
        let took = now.since(asked);
        longest = longest.max(took);
        // From the first answer on: whoever keeps a vote is known as the holder by then.
        let split_for = now.since(*answered.get_or_insert(now));
        if seen.is_nobodys() && split_for < backoff::split_time(longest) {
            // The rivals of an attempt that took longer than its lease have gone: its caller was
            // not polled meanwhile.
            if took < terms.lease() {
                let pause = backoff::split(took, 0, fastrand::f64());
                engine.executor().alarm(Some(pause))?.await;
            }
        } else if has_followed || !seen.is_busy() || !is_leaving {
            let time = CallTime { started: terms.started, now };
            return Err(seen.error(&order.key, time, attempts, None));
        } else {
            has_followed = true;
            until_left(engine, &queue).await;
        }
        asked = engine.clock().now();
        let split_time =
            if seen.is_nobodys() { backoff::split_time(longest) } else { Duration::ZERO };
        within = engine.acquire_timeout.min(limit.plus(split_time).since(asked));
        if within.is_zero() {
            let time = CallTime { started: terms.started, now: asked };
            return Err(seen.error(&order.key, time, attempts, None));
        }
        engine.check_shutdown(terms.shutdowns_before, order.key.name())?;
    }
}

/// Waits until the releases have left that are under way, and no longer than an answer may take:
/// whatever completes them ends with the background thread, where that dies.
async fn until_left(engine: &Engine, queue: &QueueHandle) {
    let Ok(patience) = engine.executor().alarm(Some(engine.reply_timeout)) else { return };
    tokio::select! {
        biased;
        () = queue.until_left() => {}
        () = patience => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::tests::fake::{SECOND, fake};

    /// The background thread has died, say.
    #[tokio::test(start_paused = true)]
    async fn a_release_that_nobody_completes_keeps_no_call_waiting_that_does_not_wait() {
        let (redlock, fake) = fake();
        fake.store.set("k", "somebody", 60 * SECOND);
        let key = LockKey::new("", "k").unwrap();
        let queue = redlock.engine().local_queue(&key, Kind::Exclusive);
        let mut release = queue.begin_release(false);
        release.leaves();
        let told = timeout(2 * SECOND, redlock.lock("k").try_acquire()).await;
        assert!(told.unwrap().unwrap().is_none());
    }
}
