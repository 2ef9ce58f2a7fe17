//! The clerk in line: where the backend hands a lock that is released to the next process that
//! waits.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Terms;
use super::clerk::Clerk;
use super::holder_here::HolderHere;
use super::tenure::{RESERVE, SMALL_RESERVE, Tenure};
use crate::backend::{Call, Claim, Fault, FencingTokens, Joined, Line, Rotated, Standing, Ticket};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::NodeErrorKind;
use crate::owner::Owner;
use crate::release;
use crate::renewal::Confirmed;
use crate::telemetry;

/// A place in line.
pub(super) struct Stand {
    claim: Claim,
    reserve: u32,
    ticket: Ticket,
    /// The lock was not handed over before this moment.
    since: Moment,
    /// The server's time of then: no fencing token of what it hands over is lower.
    since_there: u64,
    /// When to look after it, should no call come.
    pub(super) look_at: Moment,
}

impl Stand {
    /// Resolves when the lock is handed over. Cancel safe.
    pub(super) async fn called(stand: &mut Option<Self>) -> Call {
        match stand {
            Some(stand) => stand.ticket.called().await,
            None => std::future::pending().await,
        }
    }

    /// Gives the place up; what was handed over meanwhile is freed.
    pub(super) fn leave(self, engine: &Arc<Engine>) {
        release::leave(engine, self.claim, self.reserve);
    }
}

impl Clerk {
    /// Takes the lock, or a place in line for it.
    pub(super) async fn join(&mut self, terms: Terms, within: Duration) {
        let engine = Arc::clone(&self.engine);
        let Some(line) = engine.line() else { return };
        telemetry::question(terms.template);
        let (claim, reserve, ticket) = self.next_in_line(line, terms);
        let _pending = engine.pending.begin();
        // Before the command leaves: the lock may be handed over at any time after this.
        let since = self.now();
        let answer = self.patiently(line.join(&claim, reserve, within)).await;
        match answer {
            Ok(Joined::Granted(fencing_tokens)) => {
                self.seat.queue.state().calm();
                let confirmed = Confirmed { sent: since, lease: claim.expire };
                self.settle(Tenure::new(claim, confirmed, fencing_tokens)).await;
            }
            Ok(Joined::Waiting { holder, standing }) => {
                let since_there = standing.micros;
                self.stand(Stand { claim, reserve, ticket, since, since_there, look_at: since });
                self.stands(holder, standing);
            }
            Ok(Joined::Unknown) => {}
            Err(fault) => {
                if fault.is_unknown {
                    release::clean_up(&engine, claim, Some(reserve));
                }
                self.failed_in_line(fault);
            }
        }
    }

    /// Looks after its place: a call may have been missed. `false`: there is none any more.
    pub(super) async fn look(&mut self) -> bool {
        let engine = Arc::clone(&self.engine);
        let Some(mut stand) = self.stand.take() else { return false };
        let Some(line) = engine.line() else {
            stand.leave(&engine);
            return false;
        };
        self.seat.queue.asks();
        let within = self.within(self.now());
        let holder_here = HolderHere::of(&self.seat.queue);
        let sent = self.now();
        let answer = self.patiently(line.look(&stand.claim, stand.reserve, within)).await;
        match answer {
            Ok(Joined::Granted(fencing_tokens)) => {
                holder_here.learn(&self.seat.queue, None);
                let confirmed = Confirmed { sent, lease: stand.claim.expire };
                let tenure = Tenure::new(stand.claim, confirmed, fencing_tokens);
                // Begun with the question, as every hold that an answer tells of.
                self.settle(tenure.handed_over(sent, self.callers())).await;
            }
            Ok(Joined::Waiting { holder, standing }) => {
                holder_here.learn(&self.seat.queue, Some(&holder));
                (stand.since, stand.since_there) = (sent, standing.micros);
                self.stand(stand);
                self.stands(holder, standing);
            }
            // Called and not heard in time, or the queue was lost. The next owner joins anew.
            Ok(Joined::Unknown) => return false,
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
    pub(super) async fn give_way(&mut self, mut tenure: Tenure) {
        let engine = Arc::clone(&self.engine);
        let terms = self.seat.queue.state().first().map(|waiter| waiter.terms);
        let terms = terms.filter(|terms| tenure.may_become(terms.expire));
        if terms.is_some() && tenure.pass_for_claim(self.now()) {
            return self.settle(tenure).await;
        }
        // Whoever stands in line already is handed what is freed.
        let line = engine.line().filter(|_| self.stand.is_none());
        let (Some(line), Some(terms)) = (line, terms) else {
            self.ask_at = Moment::ZERO;
            return release::free(&engine, &tenure);
        };
        let (next, reserve, ticket) = self.next_in_line(line, terms);
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
                let confirmed = Confirmed { sent, lease: next.expire };
                self.settle(tenure.kept(next.expire, confirmed, fencing_tokens)).await;
            }
            Ok(Rotated::Passed { holder, standing }) => {
                let (since, look_at, since_there) = (sent, sent, standing.micros);
                self.stand(Stand { claim: next, reserve, ticket, since, since_there, look_at });
                self.stands(holder, standing);
            }
            // The one who had it last lost it in its last moments. Everyone starts again.
            Ok(Rotated::Lost(_)) => self.ask_at = Moment::ZERO,
            Err(fault) => {
                if fault.is_unknown {
                    release::clean_up(&engine, next, Some(reserve));
                }
                release::free(&engine, &tenure);
                self.failed_in_line(fault);
            }
        }
    }

    pub(super) async fn hear(&mut self, call: Call) {
        let Some(mut stand) = self.stand.take() else { return };
        match call {
            // From before its last answer: the server has forgotten since that it handed it over.
            Call::HandedOver { fencing_tokens, .. }
                if u64::from(fencing_tokens.first) < stand.since_there =>
            {
                stand.look_at = Moment::ZERO;
                self.stand(stand);
            }
            Call::HandedOver { fencing_tokens, lease } => {
                let tenure = self.handed_over(stand, fencing_tokens, lease);
                self.settle(tenure).await;
            }
            Call::Disturbed => {
                stand.look_at = Moment::ZERO;
                self.stand(stand);
            }
        }
    }

    /// The lock is ours from a moment on that lies behind `stand.since`: only from there on can
    /// the lease be counted.
    fn handed_over(&self, stand: Stand, fencing_tokens: FencingTokens, lease: Duration) -> Tenure {
        let confirmed = Confirmed { sent: stand.since, lease: lease.min(stand.claim.expire) };
        let tenure = Tenure::new(stand.claim, confirmed, fencing_tokens);
        let tenure = tenure.called(self.now(), self.callers());
        let is_certain = self.engine.line().is_none_or(Line::is_call_certain);
        if is_certain { tenure } else { tenure.doubted() }
    }

    /// How many wait here.
    fn callers(&self) -> usize {
        self.seat.queue.state().waiters.len()
    }

    fn next_in_line(&self, line: &dyn Line, terms: Terms) -> (Claim, u32, Ticket) {
        let owner = Owner::fresh(&self.engine.client_name);
        let claim = Claim { key: self.seat.queue.key.clone(), owner, expire: terms.expire };
        let ticket = line.ticket(&claim);
        let reserve = if self.callers() > 1 { RESERVE } else { SMALL_RESERVE };
        (claim, reserve, ticket)
    }

    fn stand(&mut self, stand: Stand) {
        self.engine.line_allowed();
        self.line_denial.allowed();
        self.seat.queue.state().contend();
        self.stand = Some(stand);
        self.linger();
    }

    /// Decides when to look after the place.
    fn stands(&mut self, holder: String, standing: Standing) {
        let now = self.now();
        let is_client = Owner::is_likely(&holder);
        self.seen.busy(holder, standing.free_in, now);
        let age = self.seen.hold_age(now);
        // Somebody who is no client of ours tells nobody when it lets go.
        let pause = if standing.is_told && is_client {
            backoff::in_line(standing.free_in, standing.ahead)
        } else {
            backoff::untold(age, standing.free_in, standing.ahead, fastrand::f64())
        };
        if let Some(stand) = &mut self.stand {
            stand.look_at = now.plus(pause);
        }
    }

    fn failed_in_line(&mut self, fault: Fault) {
        let pause = if self.shuns(&fault) { Duration::ZERO } else { self.failed(fault) };
        self.ask_at = self.now().plus(pause);
    }

    /// Is it a server that has no line for us? Then this clerk asks now and then, as those do
    /// without one, and its callers are not told of it.
    fn shuns(&mut self, fault: &Fault) -> bool {
        let is = |kind| fault.nodes.iter().any(|node| node.kind() == kind);
        let (is_denied, is_refused) = (is(NodeErrorKind::NoPermission), is(NodeErrorKind::Refused));
        if is_denied {
            self.engine.line_denied();
        } else if is_refused {
            self.line_denial.denied(self.now());
        }
        is_denied || is_refused
    }
}
