//! The poller in line: where the backend hands a lock that is released to the next process that
//! waits.

use std::sync::Arc;
use std::time::Duration;

use super::local_holder::LocalHolder;
use super::poller::Poller;
use crate::acquire::Terms;
use crate::backend::{
    Claim, Enqueued, Fault, FencingTokens, FifoQueue, Position, QueueSignal, Rotated, Subscription,
};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::NodeErrorKind;
use crate::hold::{ConfirmedLease, RESERVE, SMALL_RESERVE, Tenure};
use crate::owner::Owner;
use crate::{backoff, release, telemetry};

/// A place in line.
pub(crate) struct QueueEntry {
    claim: Claim,
    reserve: u32,
    subscription: Subscription,
    /// The lock was not handed over before this moment.
    since: Moment,
    /// The server's time of then: no fencing token of what it hands over is lower.
    since_there: u64,
    /// When to look after it, should no call come.
    pub(crate) look_at: Moment,
}

impl QueueEntry {
    /// Resolves when the lock is handed over. Cancel safe.
    pub(crate) async fn called(stand: &mut Option<Self>) -> QueueSignal {
        match stand {
            Some(stand) => stand.subscription.called().await,
            None => std::future::pending().await,
        }
    }

    /// Gives the place up; what was handed over meanwhile is freed.
    pub(crate) fn leave(self, engine: &Arc<Engine>) {
        release::leave(engine, self.claim, self.reserve);
    }
}

impl Poller {
    /// Takes the lock, or a place in line for it.
    pub(crate) async fn join(&mut self, terms: Terms, within: Duration) {
        let engine = Arc::clone(&self.engine);
        let Some(line) = engine.fifo_queue() else { return };
        telemetry::question(terms.template);
        let (claim, reserve, subscription) = self.next_in_line(line, terms);
        let _pending = engine.pending.begin();
        // Before the command leaves: the lock may be handed over at any time after this.
        let since = self.now();
        let answer = self.patiently(line.join(&claim, reserve, within)).await;
        match answer {
            Ok(Enqueued::Granted(fencing_tokens)) => {
                self.handle.queue.state().calm();
                let confirmed = ConfirmedLease { sent: since, lease: claim.expire };
                self.settle(Tenure::new(claim, confirmed, fencing_tokens)).await;
            }
            Ok(Enqueued::Waiting { holder, position }) => {
                let since_there = position.micros;
                self.stand(QueueEntry {
                    claim,
                    reserve,
                    subscription,
                    since,
                    since_there,
                    look_at: since,
                });
                self.stands(holder, position);
            }
            Ok(Enqueued::Unknown) => {}
            Err(fault) => {
                if fault.is_unknown {
                    release::clean_up(&engine, claim, Some(reserve));
                }
                self.failed_in_line(fault);
            }
        }
    }

    /// Looks after its place: a call may have been missed. `false`: there is none any more.
    pub(crate) async fn look(&mut self) -> bool {
        let engine = Arc::clone(&self.engine);
        let Some(mut stand) = self.stand.take() else { return false };
        let Some(line) = engine.fifo_queue() else {
            stand.leave(&engine);
            return false;
        };
        self.handle.queue.asks();
        let within = self.within(self.now());
        let holder_here = LocalHolder::of(&self.handle.queue);
        let sent = self.now();
        let answer = self.patiently(line.look(&stand.claim, stand.reserve, within)).await;
        match answer {
            Ok(Enqueued::Granted(fencing_tokens)) => {
                holder_here.learn(&self.handle.queue, None);
                let confirmed = ConfirmedLease { sent, lease: stand.claim.expire };
                let tenure = Tenure::new(stand.claim, confirmed, fencing_tokens);
                // Begun with the question, as every hold that an answer tells of.
                self.settle(tenure.handed_over(sent, self.callers())).await;
            }
            Ok(Enqueued::Waiting { holder, position }) => {
                holder_here.learn(&self.handle.queue, Some(&holder));
                (stand.since, stand.since_there) = (sent, position.micros);
                self.stand(stand);
                self.stands(holder, position);
            }
            // Called and not heard in time, or the queue was lost. The next owner joins anew.
            Ok(Enqueued::Unknown) => return false,
            Err(fault) if self.shuns(&fault) => {
                stand.leave(&engine);
                return false;
            }
            Err(fault) => {
                let pause = self.failed(fault);
                stand.look_at = self.now().plus(pause);
                self.stand(stand);
            }
        }
        true
    }

    /// A holder of this process has left its tenure, so that others are looked after.
    pub(crate) async fn give_way(&mut self, mut tenure: Tenure) {
        let engine = Arc::clone(&self.engine);
        let terms = self.handle.queue.state().first().map(|waiter| waiter.terms);
        let terms = terms.filter(|terms| tenure.may_become(terms.expire));
        if terms.is_some() && tenure.pass_for_claim(self.now()) {
            return self.settle(tenure).await;
        }
        // Whoever stands in line already is handed what is freed.
        let line = engine.fifo_queue().filter(|_| self.stand.is_none());
        let (Some(line), Some(terms)) = (line, terms) else {
            self.ask_at = Moment::ZERO;
            return crate::handoff::free(&engine, &tenure);
        };
        let (next, reserve, subscription) = self.next_in_line(line, terms);
        let _pending = engine.pending.begin();
        let within = self.within(self.now());
        let sent = self.now();
        let drawn = tenure.drawn();
        let answer =
            self.patiently(line.rotate(&tenure.claim, drawn, &next, reserve, within)).await;
        let is_over = matches!(answer, Ok(Rotated::Passed { .. } | Rotated::Lost(_)));
        if is_over && tenure.remains().was_cut {
            // The first try of its acquire may still land, and take the lock for nobody.
            release::clean_up(&engine, tenure.claim.clone(), None);
        }
        match answer {
            Ok(Rotated::Kept(fencing_tokens)) => {
                let confirmed = ConfirmedLease { sent, lease: next.expire };
                self.settle(tenure.kept(next.expire, confirmed, fencing_tokens)).await;
            }
            Ok(Rotated::Passed { holder, position }) => {
                let (since, look_at, since_there) = (sent, sent, position.micros);
                self.stand(QueueEntry {
                    claim: next,
                    reserve,
                    subscription,
                    since,
                    since_there,
                    look_at,
                });
                self.stands(holder, position);
            }
            // The one who had it last lost it in its last moments. Everyone starts again.
            Ok(Rotated::Lost(_)) => self.ask_at = Moment::ZERO,
            Err(fault) => {
                if fault.is_unknown {
                    release::clean_up(&engine, next, Some(reserve));
                }
                crate::handoff::free(&engine, &tenure);
                self.failed_in_line(fault);
            }
        }
    }

    pub(crate) async fn hear(&mut self, call: QueueSignal) {
        let Some(mut stand) = self.stand.take() else { return };
        match call {
            // From before its last answer: the server has forgotten since that it handed it over.
            QueueSignal::HandedOver { fencing_tokens, .. }
                if u64::from(fencing_tokens.first) < stand.since_there =>
            {
                stand.look_at = Moment::ZERO;
                self.stand(stand);
            }
            QueueSignal::HandedOver { fencing_tokens, lease } => {
                let tenure = self.handed_over(stand, fencing_tokens, lease);
                self.settle(tenure).await;
            }
            QueueSignal::Disturbed => {
                stand.look_at = Moment::ZERO;
                self.stand(stand);
            }
        }
    }

    /// The lock is ours from a moment on that lies behind `stand.since`: only from there on can
    /// the lease be counted.
    fn handed_over(
        &self,
        stand: QueueEntry,
        fencing_tokens: FencingTokens,
        lease: Duration,
    ) -> Tenure {
        let confirmed = ConfirmedLease { sent: stand.since, lease: lease.min(stand.claim.expire) };
        let tenure = Tenure::new(stand.claim, confirmed, fencing_tokens);
        let tenure = tenure.called(self.now(), self.callers());
        let is_certain = self.engine.fifo_queue().is_none_or(FifoQueue::is_signal_certain);
        if is_certain { tenure } else { tenure.doubted() }
    }

    /// How many wait here.
    fn callers(&self) -> usize {
        self.handle.queue.state().waiters.len()
    }

    fn next_in_line(&self, line: &dyn FifoQueue, terms: Terms) -> (Claim, u32, Subscription) {
        let owner = Owner::fresh(&self.engine.client_name);
        let claim = Claim { key: self.handle.queue.key.clone(), owner, expire: terms.expire };
        let subscription = line.subscription(&claim);
        let reserve = if self.callers() > 1 { RESERVE } else { SMALL_RESERVE };
        (claim, reserve, subscription)
    }

    fn stand(&mut self, stand: QueueEntry) {
        self.engine.queue_allowed();
        self.queue_denial.allowed();
        self.handle.queue.state().contend();
        self.stand = Some(stand);
        self.linger();
    }

    /// Decides when to look after the place.
    fn stands(&mut self, holder: String, position: Position) {
        let now = self.now();
        let is_client = Owner::is_likely(&holder);
        self.seen.busy(holder, position.free_in, now);
        let age = self.seen.hold_age(now);
        // Somebody who is no client of ours tells nobody when it lets go.
        let pause = if position.is_told && is_client {
            backoff::in_line(position.free_in, position.ahead)
        } else {
            backoff::untold(age, position.free_in, position.ahead, fastrand::f64())
        };
        if let Some(stand) = &mut self.stand {
            stand.look_at = now.plus(pause);
        }
    }

    fn failed_in_line(&mut self, fault: Fault) {
        let pause = if self.shuns(&fault) { Duration::ZERO } else { self.failed(fault) };
        self.ask_at = self.now().plus(pause);
    }

    /// Is it a server that has no line for us? Then this poller asks now and then, as those do
    /// without one, and its callers are not told of it.
    fn shuns(&mut self, fault: &Fault) -> bool {
        let is = |kind| fault.nodes.iter().any(|node| node.kind() == kind);
        let (is_denied, is_refused) = (is(NodeErrorKind::NoPermission), is(NodeErrorKind::Refused));
        if is_denied {
            self.engine.queue_denied();
        } else if is_refused {
            self.queue_denial.denied(self.now());
        }
        is_denied || is_refused
    }
}
