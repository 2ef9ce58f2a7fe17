//! Hands a lock to a caller that waits in this process: a lock that the server granted, or one that
//! its holder releases.

use std::sync::Arc;
use std::time::Duration;

use super::grant::{NotHeld, grant};
use super::lost::release_ended;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::hold::{Begin, Granted, Hold, Tenure};
use crate::local_queue::{QueueHandle, Successor, Waiter};

/// Takes a lock back from a caller that went away before it learned of it: its hold has ended, and
/// the tenure goes on. `None`: the lock was lost.
fn reclaim(engine: &Arc<Engine>, queue: &QueueHandle, mut granted: Granted) -> Option<Granted> {
    if !granted.scheduler.end(&granted.hold, engine.clock().now()) {
        release_ended(engine, queue, &granted);
        return None;
    }
    drop(granted.hold.take_pending());
    granted.tenure.renewed(granted.hold.confirmed(), granted.hold.server_end());
    Some(granted)
}

/// The outcome of giving a lock to a waiter.
pub(crate) enum Delivery {
    Done,
    /// The lease was used up; the lock was released.
    TooLate(Waiter, Duration),
    /// The waiter has gone. Its hold is over, and counts as the last one of this process.
    Returned(Granted),
}

/// Makes a waiter the holder, and offers it the lock. `at`: when its hold begins, if not with the
/// lease.
pub(crate) fn give_to_waiter(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    tenure: Tenure,
    waiter: Waiter,
    at: Option<Moment>,
) -> Delivery {
    let at = at.unwrap_or(tenure.since());
    let attempts = queue.attempts_for(&waiter);
    let begin = Begin { at, is_taken: false };
    match grant(engine, queue, tenure, waiter.terms, attempts, begin) {
        Ok(granted) => {
            let unwanted = waiter.answer(Ok(granted));
            let returned = unwanted.and_then(|granted| reclaim(engine, queue, granted));
            returned.map_or(Delivery::Done, Delivery::Returned)
        }
        Err(NotHeld::TooLate { took }) => Delivery::TooLate(waiter, took),
        Err(NotHeld::Unscheduled(error)) => {
            waiter.answer(Err(error));
            Delivery::Done
        }
    }
}

/// Hands a lock that is released at `now` to the next waiter of this process. `Some`: no waiter
/// took it, and the caller has to free it.
pub(super) fn pass_on(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    hold: &Hold,
    mut tenure: Tenure,
    now: Moment,
) -> Option<Tenure> {
    // The last hold, if a waiter had the lock since.
    let mut last: Option<Arc<Hold>> = None;
    loop {
        match queue.next(last.as_deref().unwrap_or(hold), tenure, now) {
            Successor::Nobody(left) => return Some(left),
            Successor::Poller => return None,
            Successor::Waiter(waiter, passed, _in_hand) => {
                let unwanted = hand_to(engine, queue, passed, waiter, now)?;
                (last, tenure) = (Some(unwanted.hold), unwanted.tenure);
            }
        }
    }
}

/// Hands a lock to a waiter. `Some`: the waiter has gone.
fn hand_to(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    tenure: Tenure,
    waiter: Waiter,
    now: Moment,
) -> Option<Granted> {
    match give_to_waiter(engine, queue, tenure, waiter, Some(now)) {
        Delivery::Done => None,
        // The lease was over and is being released: the waiters start again.
        Delivery::TooLate(waiter, _) => {
            queue.put_back(waiter);
            queue.news.notify_one();
            None
        }
        Delivery::Returned(unwanted) => Some(unwanted),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio::sync::oneshot;

    use super::*;
    use crate::backend::{Claim, Command, Fate, FencingTokens};
    use crate::error::LockError;
    use crate::fencing::FencingToken;
    use crate::hold::{ConfirmedLease, Terms};
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::local_queue::{Answer, PollerState};
    use crate::owner::Owner;
    use crate::state::LostReason;
    use crate::tests::fake::fake;

    const EXPIRE: Duration = Duration::from_secs(30);

    /// A lock that was granted now, and its queue.
    fn granted(engine: &Arc<Engine>) -> (QueueHandle, Tenure) {
        let (key, kind) = (LockKey::new("", "k").unwrap(), Kind::Exclusive);
        let queue = engine.local_queue(&key, kind);
        let claim = Claim { key, owner: Owner::fresh(&engine.client), expire: EXPIRE, kind };
        let number = |value| FencingToken::new(value).unwrap();
        let fencing_tokens = FencingTokens { first: number(1), last: number(9) };
        let confirmed = ConfirmedLease { sent: engine.clock().now(), lease: EXPIRE };
        (queue, Tenure::new(claim, confirmed, fencing_tokens))
    }

    fn waiter(engine: &Engine, id: u64) -> (Waiter, oneshot::Receiver<Answer>) {
        let terms = Terms::of_plain_call(EXPIRE, engine.clock().now());
        let (reply, answer) = oneshot::channel();
        (Waiter::new(id, terms, Moment::NEVER, reply), answer)
    }

    /// The end of its release would be news as well, but it may take long.
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_over_when_it_is_handed_on_is_news_for_the_poller() {
        let (redlock, fake) = fake();
        fake.state().script.next(Command::Release, [Fate::LostRequest]);
        let engine = redlock.engine();
        let (queue, tenure) = granted(engine);
        let (waiter, _answer) = waiter(engine, 1);
        queue.state().poller = PollerState::Busy;
        tokio::time::advance(EXPIRE).await;
        assert!(hand_to(engine, &queue, tenure, waiter, engine.clock().now()).is_none());
        assert_eq!(queue.state().waiters.len(), 1);
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(pin!(queue.news.notified()).poll(&mut nobody).is_ready());
    }

    /// Nobody would look after it.
    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_comes_back_after_its_poller_has_died_is_told() {
        let (redlock, _fake) = fake();
        let engine = redlock.engine();
        let (queue, tenure) = granted(engine);
        let (waiter, mut answer) = waiter(engine, 1);
        tokio::time::advance(EXPIRE).await;
        assert!(hand_to(engine, &queue, tenure, waiter, engine.clock().now()).is_none());
        assert!(matches!(answer.try_recv(), Ok(Err(LockError::BackgroundThread { .. }))));
    }

    /// Its caller asks again. No body relied on it.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_its_caller_never_took_is_not_lost() {
        let (redlock, _fake) = fake();
        let engine = redlock.engine();
        let (queue, tenure) = granted(engine);
        let (waiter, _answer) = waiter(engine, 1);
        assert!(hand_to(engine, &queue, tenure, waiter, engine.clock().now()).is_none());
        let hold = queue.state().holder.clone().unwrap();
        assert!(hold.lose(LostReason::Stolen) && hold.is_over());
        assert_eq!((hold.lost(), hold.take_offer()), (None, None));
        let (waiter, _answer) = self::waiter(engine, 2);
        let (queue, tenure) = self::granted(engine);
        assert!(hand_to(engine, &queue, tenure, waiter, engine.clock().now()).is_none());
        let hold = queue.state().holder.clone().unwrap();
        // It took the lock during a shutdown, which gives it back.
        assert_eq!(hold.take_offer(), Some(false));
        hold.give_back();
        assert!(hold.lose(LostReason::Stolen));
        assert_eq!(hold.lost(), None);
    }

    /// The hold of the one that went was the last one of this process.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_comes_back_goes_to_the_next_waiter_without_the_poller() {
        let (redlock, _fake) = fake();
        let engine = redlock.engine();
        let (queue, tenure) = granted(engine);
        let ((first, gone), (next, mut answer)) = (waiter(engine, 1), waiter(engine, 2));
        queue.enter(next, 0);
        drop(gone);
        let now = engine.clock().now();
        let back = hand_to(engine, &queue, tenure, first, now).unwrap();
        assert!(pass_on(engine, &queue, &back.hold, back.tenure, now).is_none());
        assert!(answer.try_recv().unwrap().is_ok());
    }
}
