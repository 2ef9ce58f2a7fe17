//! Waits for a lock: queue, attempt, pause, again, until it is ours or the time is up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::attempt::{Attempts, Outcome};
use super::fairness;
use super::queue::{Seat, Turn};
use crate::backend::Fault;
use crate::backoff;
use crate::clock::{Clock, Moment};
use crate::engine::Engine;
use crate::error::LockError;
use crate::key::LockKey;
use crate::options::{Policy, Wait};
use crate::release::Ownership;
use crate::telemetry;

/// What the last attempt, made when the time is up, may add to the wait.
const LAST_ATTEMPT: Duration = Duration::from_millis(250);

/// Which lock, and on what terms.
#[derive(Debug)]
pub(crate) struct Order {
    /// What the key was rendered from: the label of metrics.
    pub(crate) template: &'static str,
    pub(crate) key: LockKey,
    pub(crate) policy: Policy,
}

type Granted = Result<Ownership, LockError>;

/// Begins to acquire a lock. Whoever drops the receiver gives up: the lock, if it comes, is
/// released at once, and nothing is left behind.
pub(crate) fn start(
    engine: &Arc<Engine>,
    order: Order,
) -> Result<oneshot::Receiver<Granted>, LockError> {
    let (reply, answer) = oneshot::channel();
    let started = engine.clock().now();
    let acquirer = Arc::clone(engine);
    // A task of its own: a command that has been sent is always seen through to its answer.
    engine.host().spawn(async move {
        let mut caller = Caller { reply };
        if let Some(granted) = acquire(&acquirer, &order, started, &mut caller).await {
            match &granted {
                Ok(ownership) => telemetry::acquired(order.template, ownership.hold().waited),
                Err(error) => telemetry::not_acquired(order.template, error),
            }
            // The caller may have gone meanwhile: then the lock comes back, and its drop frees it.
            let _ = caller.reply.send(granted);
        }
    })?;
    Ok(answer)
}

struct Caller {
    reply: oneshot::Sender<Granted>,
}

impl Caller {
    async fn gone(&mut self) {
        self.reply.closed().await;
    }
}

/// `None`: the caller has gone.
async fn acquire(
    engine: &Arc<Engine>,
    order: &Order,
    started: Moment,
    caller: &mut Caller,
) -> Option<Granted> {
    if caller.reply.is_closed() {
        return None;
    }
    let clock = engine.clock();
    let end = match order.policy.wait() {
        Wait::Never => started,
        Wait::AtMost(limit) => started.plus(limit),
        Wait::Forever => Moment::NEVER,
    };
    let seat = engine.queues.join(&order.key);
    let mut waiting = None;
    let mut turn = seat.try_turn();
    if turn.is_none() && order.policy.wait() != Wait::Never {
        let Some(place) = seat.wait() else { return Some(Err(too_many(order))) };
        waiting = Some(place);
        turn = tokio::select! {
            biased;
            () = caller.gone() => return None,
            turn = seat.turn() => Some(turn),
            () = clock.sleep_until(end) => None,
        };
    }
    let attempts = Attempts::new(engine, order, started);
    let mut waiter =
        Waiter { clock, order, seat: &seat, turn, attempts, started, end, seen: Seen::default() };
    // While this process holds the lock itself, asking is pointless: its release wakes us.
    let mut is_worth_asking = order.policy.wait() == Wait::Never || !seat.is_held_here();
    loop {
        if !std::mem::replace(&mut is_worth_asking, true) {
            if waiting.is_none() {
                let Some(place) = seat.wait() else { return Some(Err(too_many(order))) };
                waiting = Some(place);
            }
            if !waiter.pause(caller).await {
                return None;
            }
        }
        match waiter.ask(engine.reply_timeout).await {
            Ok(Some(ownership)) => return Some(Ok(ownership)),
            Ok(None) => {}
            Err(error) => return Some(Err(error)),
        }
        is_worth_asking = false;
    }
}

fn too_many(order: &Order) -> LockError {
    LockError::TooManyWaiters { key: order.key.name().to_owned() }
}

/// One caller on its way to a lock.
struct Waiter<'a> {
    clock: Clock,
    order: &'a Order,
    seat: &'a Seat,
    /// `None`: the time was up before it was our turn; one last attempt is made without it.
    turn: Option<Turn<'a>>,
    attempts: Attempts<'a>,
    started: Moment,
    end: Moment,
    seen: Seen,
}

/// What the attempts so far have shown.
#[derive(Default)]
struct Seen {
    holder: Option<String>,
    /// When this holder was first seen.
    holder_since: Option<Moment>,
    free_in: Option<Duration>,
    is_split: bool,
    fault: Option<Fault>,
    failures: u32,
    too_late: Option<Duration>,
}

impl Waiter<'_> {
    /// One attempt. `Ok(None)`: not yet, and there is time left.
    async fn ask(&mut self, reply_timeout: Duration) -> Result<Option<Ownership>, LockError> {
        if self.seen.fault.is_some() && self.clock.now() >= self.end {
            return Err(self.failure());
        }
        let left = self.end.since(self.clock.now()).max(LAST_ATTEMPT);
        let within = match self.order.policy.wait() {
            Wait::Never => reply_timeout,
            Wait::AtMost(_) | Wait::Forever => reply_timeout.min(left),
        };
        // An attempt made at or after the end is the last one.
        let is_last = self.turn.is_none() || self.clock.now() >= self.end;
        match self.attempts.attempt(self.seat, within).await? {
            Outcome::Granted(ownership) => {
                self.seat.fairness().granted(self.clock.now());
                self.report(&ownership);
                return Ok(Some(ownership));
            }
            Outcome::Busy { holder, free_in, is_split } => {
                self.see(holder, free_in, is_split);
            }
            Outcome::TooLate { took } => {
                self.seen = Seen { too_late: Some(took), ..Seen::default() };
            }
            Outcome::Failed(fault) => {
                let failures = self.seen.failures + 1;
                let is_final = fault.is_final;
                self.seen = Seen { fault: Some(fault), failures, ..Seen::default() };
                // A server that did not answer in time gets no last attempt beyond it.
                if is_final || self.clock.now() >= self.end {
                    return Err(self.failure());
                }
            }
        }
        if is_last { Err(self.failure()) } else { Ok(None) }
    }

    fn see(&mut self, holder: String, free_in: Option<Duration>, is_split: bool) {
        let now = self.clock.now();
        if !self.seat.is_held_here() {
            self.seat.fairness().stranger(now);
        }
        let is_same = self.seen.holder.as_ref() == Some(&holder);
        let holder_since = self.seen.holder_since.filter(|_| is_same).or(Some(now));
        self.seen =
            Seen { holder: Some(holder), holder_since, free_in, is_split, ..Seen::default() };
    }

    /// Waits until another attempt is worth it. `false`: the caller has gone.
    async fn pause(&self, caller: &mut Caller) -> bool {
        let now = self.clock.now();
        let pause = if self.seen.fault.is_some() {
            backoff::failed(self.seen.failures, fastrand::f64())
        } else if self.seen.is_split {
            backoff::split(fastrand::f64())
        } else if self.seat.is_held_here() {
            backoff::LOCAL_HOLDER
        } else {
            let hold_age = now.since(self.seen.holder_since.unwrap_or(now));
            backoff::busy(self.attempts.count, hold_age, self.seen.free_in, fastrand::f64())
        };
        let again = now.plus(pause).min(self.end);
        tokio::select! {
            biased;
            () = caller.gone() => return false,
            () = self.seat.until_freed() => self.give_way().await,
            () = self.clock.sleep_until(again) => {}
        }
        true
    }

    /// Leaves a lock that this process just released to others for a moment, now and then.
    async fn give_way(&self) {
        let now = self.clock.now();
        if self.seat.fairness().gives_way(now) {
            self.clock.sleep_until(now.plus(fairness::WINDOW).min(self.end)).await;
        }
    }

    fn failure(&mut self) -> LockError {
        let key = self.order.key.name().to_owned();
        let waited = self.clock.now().since(self.started);
        let seen = std::mem::take(&mut self.seen);
        if let Some(fault) = seen.fault {
            return LockError::Unavailable { key, nodes: fault.nodes };
        }
        if let Some(took) = seen.too_late {
            return LockError::ExpireTooShort { key, took, expire: self.order.policy.expire() };
        }
        LockError::Timeout { key, waited, attempts: self.attempts.count, holder: seen.holder }
    }

    fn report(&self, ownership: &Ownership) {
        tracing::debug!(
            key = self.order.key.name(),
            fencing_token = %ownership.hold().fencing_token,
            waited = ?self.clock.now().since(self.started),
            attempts = self.attempts.count,
            "lock acquired"
        );
    }
}
