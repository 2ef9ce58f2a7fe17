//! The poller of a queue: makes attempts for all callers of this process that wait for one key, and
//! times out expired waiters.

use std::sync::Arc;
use std::time::Duration;

use super::by_attempts::ByAttempts;
use super::context::PollerContext;
use super::deliver::deliver;
use super::in_queue::InQueue;
use super::strategy::Strategy;
use crate::acquire::observed::Observed;
use crate::background_thread::{self, stopped};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::{Tenure, Terms};
use crate::local_queue::{PollerState, QueueHandle, QueueState, RestReason};
use crate::pending::PendingCommand;
use crate::release;

/// How long a poller that can queue stays after its last waiter: callers often come back.
const LINGER: Duration = Duration::from_secs(1);

/// Starts the poller of a queue that has none.
pub(in crate::acquire) fn start_poller(
    engine: &Arc<Engine>,
    queue: QueueHandle,
    observed: Observed,
) -> Result<(), LockError> {
    let context = PollerContext::new(Arc::clone(engine), queue, observed);
    let executor = engine.executor();
    if engine.backend.abilities().fifo_queue.is_some() {
        executor.spawn(Poller::<InQueue>::new(context).run())
    } else {
        executor.spawn(Poller::<ByAttempts>::new(context).run())
    }
}

struct Poller<S: Strategy> {
    context: PollerContext,
    strategy: S,
    lingers_until: Moment,
    /// No caller was left waiting. From then on the queue may have another poller.
    has_retired: bool,
}

/// What a poller does next.
enum NextStep {
    /// A holder has left its tenure for the waiters of this process.
    GiveWay(Tenure, PendingCommand),
    /// No caller is left waiting.
    LeaveQueue,
    Ask(Terms),
    Rest(Moment),
    Retire,
}

impl<S: Strategy> Poller<S> {
    fn new(context: PollerContext) -> Self {
        let strategy = S::new(&context.engine);
        Self { context, strategy, lingers_until: Moment::ZERO, has_retired: false }
    }

    async fn run(mut self) {
        loop {
            self.context.let_releases_leave().await;
            self.context.time_out_expired(self.strategy.is_queued());
            match self.next_step() {
                NextStep::GiveWay(tenure, _pending) => {
                    let kept = self.strategy.give_way(&mut self.context, tenure).await;
                    self.deliver(kept).await;
                }
                NextStep::LeaveQueue => self.strategy.leave(&self.context.engine),
                NextStep::Ask(terms) => {
                    // Until what is granted was delivered, and is counted as an offer, or is being
                    // released.
                    let _pending = self.context.engine.pending.begin();
                    let began = self.context.now();
                    let granted = self.strategy.ask(&mut self.context, terms).await;
                    self.deliver(granted).await;
                    self.context.asked_at = began;
                }
                NextStep::Rest(until) => self.rest(until).await,
                NextStep::Retire => return,
            }
        }
    }

    fn next_step(&mut self) -> NextStep {
        let now = self.context.now();
        let queue = Arc::clone(&self.context.queue);
        // Declared before the guard of the mutex, and so dropped after it.
        let _undone;
        let mut state = queue.state();
        state.poller = PollerState::Busy;
        if let Some(returned) = state.returned.take() {
            let (tenure, pending) = *returned;
            return NextStep::GiveWay(tenure, pending);
        }
        let Some(terms) = state.first().map(|waiter| waiter.terms) else {
            if self.strategy.is_queued() {
                return NextStep::LeaveQueue;
            }
            _undone = state.left.take();
            if state.in_hand == 0 && now >= self.lingers_until {
                state.poller = PollerState::Absent;
                self.has_retired = true;
                return NextStep::Retire;
            }
            let until = if state.in_hand == 0 { self.lingers_until } else { now.plus(LINGER) };
            return rest(&mut state, until, RestReason::Idle);
        };
        // From here on, the poller makes attempts for callers that are still there.
        _undone = state.left.take();
        let (until, why) = self.rest_until(&mut state, now);
        let given_up = self.context.outage_ends_wait(&mut state);
        let until = until.min(state.waiters.earliest_end()).min(given_up);
        if now < until { rest(&mut state, until, why) } else { NextStep::Ask(terms) }
    }

    /// Until when no attempt is due, and why.
    fn rest_until(&mut self, state: &mut QueueState, now: Moment) -> (Moment, RestReason) {
        let was_freed = std::mem::take(&mut state.is_freed);
        let taken_here = if self.strategy.is_queued() {
            RestReason::TakenHereInQueue
        } else {
            RestReason::TakenHere
        };
        if state.ends_with_news() {
            let pause = if self.strategy.has_queue(&self.context.engine) {
                backoff::HOLDER_HERE
            } else {
                backoff::HOLDER_HERE_WITHOUT_QUEUE
            };
            let since = self.context.asked_at.max(state.taken_since(now));
            let mut until = since.plus(pause);
            if self.context.observed.fault.is_some() {
                // The holder does not learn when the outage is over.
                until = until.min(self.strategy.plan_next_ask(was_freed, now));
            }
            return (until, taken_here);
        }
        if let Some(answered_by) = state.direct_attempt_ends(now) {
            return (answered_by, taken_here);
        }
        (self.strategy.plan_next_ask(was_freed, now), RestReason::Waits)
    }

    async fn rest(&mut self, until: Moment) {
        let clock = self.context.engine.clock();
        let queue = Arc::clone(&self.context.queue);
        let signal = tokio::select! {
            biased;
            signal = self.strategy.signal() => Some(signal),
            () = queue.news.notified() => None,
            () = clock.sleep_until(until) => None,
        };
        if let Some(signal) = signal {
            // It rests no longer: a claim may take long, and a caller that comes meanwhile may wait
            // for less.
            queue.state().poller = PollerState::Busy;
            let _pending = self.context.engine.pending.begin();
            let handed_over = self.strategy.hear(&self.context, signal);
            self.deliver(handed_over).await;
        }
    }

    /// Delivers a granted lock, if there is one.
    async fn deliver(&mut self, granted: Option<Tenure>) {
        if granted.is_some() || self.strategy.is_queued() {
            self.linger();
        }
        let Some(tenure) = granted else { return };
        self.context.observed.granted();
        self.strategy.note_granted();
        let may_claim = self.strategy.has_queue(&self.context.engine);
        if let Some(moment) = deliver(&mut self.context, tenure, may_claim).await {
            self.strategy.set_next_ask(moment);
        }
    }

    /// Keeps the poller for a while: callers that waited in a queue once often do so again. The
    /// poller of a reader is its own.
    fn linger(&mut self) {
        let is_alone = self.context.local_queue().kind.is_shared();
        if self.strategy.has_queue(&self.context.engine) && !is_alone {
            self.lingers_until = self.context.now().plus(LINGER);
        }
    }
}

fn rest(state: &mut QueueState, until: Moment, why: RestReason) -> NextStep {
    state.poller = PollerState::Resting { until, why };
    NextStep::Rest(until)
}

/// Releases what a holder has left for the waiters of this process.
fn free_returned(
    engine: &Arc<Engine>,
    queue: &QueueHandle,
    returned: Option<Box<(Tenure, PendingCommand)>>,
) {
    if let Some((tenure, _pending)) = returned.map(|returned| *returned) {
        release::free(engine, queue, &tenure);
    }
}

/// Replaces a poller that ends early: by a panic, or with the runtime of the caller that started
/// it.
impl<S: Strategy> Drop for Poller<S> {
    fn drop(&mut self) {
        let PollerContext { engine, queue, .. } = &self.context;
        self.strategy.leave(engine);
        if self.has_retired {
            return;
        }
        let (returned, is_needed) = {
            let mut state = queue.state();
            // One that is in hand may come back.
            let is_needed = state.first().is_some() || state.in_hand > 0;
            let is_needed = is_needed && !std::thread::panicking();
            (state.returned.take(), is_needed)
        };
        free_returned(engine, queue, returned);
        // The thread is started before its replacement is created: the drop of a replacement that
        // cannot be spawned would create another replacement, without end.
        if let Some(thread) = is_needed.then(background_thread::handle).and_then(Result::ok) {
            let heir = Self::new(PollerContext::new(
                Arc::clone(engine),
                queue.another(),
                Observed::default(),
            ));
            drop(thread.spawn(heir.run()));
            return;
        }
        let (orphans, returned, undone) = {
            let mut state = queue.state();
            state.poller = PollerState::Absent;
            // A holder may have left another one since.
            (std::mem::take(&mut state.waiters), state.returned.take(), state.left.take())
        };
        drop(undone);
        for waiter in orphans.into_iter() {
            waiter.answer(Err(stopped("an acquire")));
        }
        free_returned(engine, queue, returned);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;
    use crate::backend::{Acquired, Claim, Fate};
    use crate::hold::ConfirmedLease;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::local_queue::Waiter;
    use crate::owner::Owner;
    use crate::tests::fake::{SECOND, fake};
    use crate::tests::server::Server;

    #[tokio::test(start_paused = true)]
    async fn a_poller_that_has_retired_takes_nothing_from_the_next_one() {
        let (redlock, _fake) = fake();
        let engine = redlock.engine();
        let queue = engine.local_queue(&LockKey::new("", "k").unwrap(), Kind::Exclusive);
        let context = PollerContext::new(Arc::clone(engine), queue.another(), Observed::default());
        let mut retired = Poller::<ByAttempts>::new(context);
        assert!(matches!(retired.next_step(), NextStep::Retire));
        // A caller has come, and has started another one, before the first is dropped.
        queue.state().poller = PollerState::Busy;
        drop(retired);
        assert_eq!(queue.state().poller, PollerState::Busy);
    }

    /// The runtime of the caller that started it ends. The waiter may be put back.
    #[tokio::test(start_paused = true)]
    async fn a_poller_that_ends_while_a_waiter_is_in_hand_is_replaced() {
        let (redlock, _fake) = fake();
        let engine = redlock.engine();
        let queue = engine.local_queue(&LockKey::new("", "k").unwrap(), Kind::Exclusive);
        let context = PollerContext::new(Arc::clone(engine), queue.another(), Observed::default());
        let poller = Poller::<ByAttempts>::new(context);
        {
            let mut state = queue.state();
            (state.poller, state.in_hand) = (PollerState::Busy, 1);
        }
        drop(poller);
        assert_ne!(queue.state().poller, PollerState::Absent);
        queue.state().in_hand = 0;
        queue.news.notify_one();
    }

    /// A tenure that was granted now, for the one who waits.
    async fn returned(engine: &Engine, queue: &QueueHandle) -> Tenure {
        let (key, kind) = (queue.key().clone(), queue.kind);
        let claim = Claim { key, owner: Owner::fresh(&engine.client), expire: SECOND, kind };
        let confirmed = ConfirmedLease { sent: engine.clock().now(), lease: SECOND };
        let granted = engine.backend.acquire(&claim, SECOND).await;
        let Ok(Acquired::Granted { fencing_tokens, .. }) = granted else { panic!("{granted:?}") };
        Tenure::new(claim, confirmed, fencing_tokens)
    }

    /// Nobody else knows of the owners that it has sent.
    #[tokio::test(start_paused = true)]
    async fn a_poller_that_ends_before_an_answer_leaves_nothing_behind() {
        for verb in ["join", "look", "rotate"] {
            let server = Server::new();
            let redlock = server.client();
            let engine = redlock.engine();
            let queue = engine.local_queue(&LockKey::new("", "k").unwrap(), Kind::Exclusive);
            let terms = Terms::of_plain_call(SECOND, engine.clock().now());
            let (reply, answer) = oneshot::channel();
            queue.enter(Waiter::new(1, terms, Moment::NEVER, reply), 0);
            queue.state().note_contention();
            if verb == "rotate" {
                let tenure = returned(engine, &queue).await;
                queue.state().returned = Some(Box::new((tenure, engine.pending.begin())));
            } else {
                server.set("k", 60 * SECOND);
            }
            let context =
                PollerContext::new(Arc::clone(engine), queue.another(), Observed::default());
            let mut poller = Box::pin(Poller::<InQueue>::new(context).run());
            server.next(verb, [Fate::LostReply]);
            let moment = Duration::from_millis(1);
            assert!(timeout(moment, &mut poller).await.is_err());
            if verb == "look" {
                server.disturb();
                assert!(timeout(moment, &mut poller).await.is_err());
            }
            assert_eq!(server.take_verbs().pop().as_deref(), Some(verb));
            let owner = server.owner("k").filter(|_| verb != "rotate");
            drop(answer);
            drop(poller);
            assert_eq!((server.waiting(), server.owner("k")), (0, owner), "{verb}");
        }
    }
}
