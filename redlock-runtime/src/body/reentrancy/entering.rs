//! Calls that re-enter a hold of their task.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use super::lookup::Reenterable;
use super::{HoldLink, ReentrantCall, Relation};
use crate::budget;
use crate::engine::Engine;
use crate::error::{AlreadyHeldReason, LockError};
use crate::hold::Turn;
use crate::kind::Kind;
use crate::options::Wait;
use crate::process::OfProcess;

/// A call that re-entered a hold, until it is done.
#[derive(Debug)]
pub(crate) struct Reentry {
    link: Arc<HoldLink>,
    _turn: Arc<Turn>,
}

/// A call that waits until its siblings are done.
pub(crate) struct Entering(OfProcess<Work>);

type Work = Pin<Box<dyn Future<Output = Result<Reentry, LockError>> + Send + Sync>>;

impl Future for Entering {
    type Output = Result<Reentry, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Reentry {
    pub(crate) fn link(&self) -> &Arc<HoldLink> {
        &self.link
    }
}

impl Drop for Reentry {
    /// Before it lets go of its turn.
    fn drop(&mut self) {
        if let Some(call) = self.link.reentry() {
            call.is_over.store(true, Ordering::Release);
        }
    }
}

impl Reenterable {
    /// Fails for a call of a kind that cannot run inside of the hold, and would wait for it. `key`:
    /// what the call wants.
    pub(crate) fn check_kind(&self, kind: Kind, key: &str) -> Result<(), LockError> {
        let outer = self.parent.hold.claim.kind;
        if kind.may_run_inside(outer) {
            return Ok(());
        }
        // Where the outer form could run inside of the inner one, the order of the two is wrong.
        let reason = if outer.may_run_inside(kind) {
            AlreadyHeldReason::Stronger
        } else {
            AlreadyHeldReason::OtherKind
        };
        Err(LockError::already_held(key, reason))
    }

    /// Re-enters if no sibling is inside of the hold, and other tasks need not run first.
    pub(crate) fn enter_now(&self) -> Option<Reentry> {
        if !budget::try_spend() {
            return None;
        }
        self.parent.children().try_take().map(|turn| self.reenter(turn))
    }

    /// Re-enters once the siblings that came before are done. The turn of the parent lasts
    /// meanwhile, also after the parent's own end: the call comes before the siblings of the
    /// parent. The timer runs on the executor, so that neither a sibling that is not polled nor a
    /// caller without timers prolongs the wait.
    pub(crate) fn wait_for_turn(self, engine: &Arc<Engine>, wait: Wait, key: &str) -> Entering {
        let (engine, key, process) = (Arc::clone(engine), key.to_owned(), engine.process);
        let entered = tokio::task::unconstrained(async move {
            let (executor, clock) = (engine.executor(), engine.clock());
            let started = clock.now();
            let hold = Arc::clone(&self.parent.hold);
            let mut turn = pin!(self.parent.children().take());
            // A turn that is free needs no timer.
            if let Poll::Ready(Some(turn)) = poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx))).await
            {
                return Ok(self.reenter(turn));
            }
            let (mut over, mut time_up) = (pin!(hold.over()), pin!(executor.alarm(limit(wait))?));
            poll_fn(|cx| {
                if let Poll::Ready(Some(turn)) = turn.as_mut().poll(cx) {
                    return Poll::Ready(Ok(self.reenter(turn)));
                }
                if let (Poll::Ready(()), Err(ended)) = (over.as_mut().poll(cx), hold.check()) {
                    return Poll::Ready(Err(ended));
                }
                if time_up.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let (key, waited) = (key.clone(), clock.now().since(started));
                Poll::Ready(Err(LockError::TurnTaken { key, waited }))
            })
            .await
        });
        let work = async move {
            budget::spend().await;
            entered.await
        };
        Entering(OfProcess::new(process, Box::pin(work)))
    }

    fn reenter(&self, turn: Turn) -> Reentry {
        let hold = Arc::clone(&self.parent.hold);
        let turn = turn.inside(self.turn.clone());
        let call = ReentrantCall::inside(&self.parent, &turn);
        Reentry { link: Arc::new(HoldLink { hold, call: Relation::Reentry(call) }), _turn: turn }
    }
}

/// When the time of a call is up that waits for its turn; `None`: at once.
fn limit(wait: Wait) -> Option<Duration> {
    match wait {
        Wait::AtMost(limit) => Some(limit),
        Wait::Never => None,
        Wait::Forever => Some(Duration::MAX),
    }
}
