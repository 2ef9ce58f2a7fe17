//! What the background does about a lock that its holder let go of.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::clean_up::clean_up;
use super::flush::Unsent;
use super::pending::PendingGuard;
use crate::acquire::{Freeing, Late, Remains, Seat, Tenure};
use crate::backend::{Backend, Claim, Drawn, Fault, Found};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::host;
use crate::report::Kind;
use crate::shield::{shielded, tell};
use crate::state::Released;

/// One release, tried until it is answered or the lease would be over anyway.
pub(super) struct ReleaseJob {
    pub(super) engine: Arc<Engine>,
    pub(super) claim: Claim,
    /// Where fencing tokens that were reserved are to be given back.
    pub(super) unused: Option<Drawn>,
    pub(super) remains: Remains,
    /// The server has dropped the lease by itself from here on.
    pub(super) until: Moment,
    /// An earlier try was not answered.
    pub(super) is_unknown: bool,
    pub(super) reply: Option<oneshot::Sender<Result<Released, Fault>>>,
    pub(super) pending: PendingGuard,
    pub(super) unsent: Option<Unsent>,
    /// Those who wait for it here.
    pub(super) freeing: Option<Freeing>,
    /// Where they are told of it by the server.
    pub(super) seat: Option<Seat>,
    /// It is sent by the keeper.
    pub(super) late: Option<Late>,
}

impl ReleaseJob {
    pub(super) fn new(
        engine: &Arc<Engine>,
        tenure: &Tenure,
        until: Moment,
        seat: Option<Seat>,
    ) -> Self {
        // Where waiters are told of a release by the server, they need not wait for its end here.
        let (seat, freeing) = match engine.line() {
            Some(_) => (seat, None),
            None => (None, seat.map(Seat::freeing)),
        };
        Self {
            engine: Arc::clone(engine),
            claim: tenure.claim.clone(),
            unused: tenure.unused(),
            remains: tenure.remains(),
            until,
            is_unknown: false,
            reply: None,
            pending: engine.pending.begin(),
            unsent: None,
            freeing,
            seat,
            late: None,
        }
    }

    /// From here on the background does it.
    pub(super) fn in_background(mut self) -> impl Future<Output = ()> + Send {
        if self.unsent.is_none() && !self.engine.is_embedded() {
            self.unsent = Some(Unsent::here());
        }
        self.late = self.late.or_else(|| self.seat.take().map(Seat::late));
        self.run()
    }

    async fn run(mut self) {
        let clock = self.engine.clock();
        let mut failures = 0;
        loop {
            let answer = self.question().ask(&*self.engine.backend).await;
            drop(self.unsent.take());
            let fault = match answer {
                Ok(found) => {
                    self.finish(found);
                    return;
                }
                Err(fault) => fault,
            };
            self.is_unknown |= fault.is_unknown;
            let retry_at = clock.now().plus(backoff::failed(failures, fastrand::f64()));
            if fault.is_final || retry_at >= self.until {
                return self.give_up(fault);
            }
            // The caller is told at once; the work goes on without it.
            if let Some(reply) = self.reply.take() {
                shielded(|| reply.send(Err(fault)));
            }
            failures += 1;
            clock.sleep_until(retry_at).await;
        }
    }

    /// What one try asks.
    pub(super) fn question(&self) -> Question {
        Question {
            claim: self.claim.clone(),
            unused: self.unused,
            is_leaving: self.remains.may_be_in_line,
            within: self.engine.reply_timeout,
        }
    }

    pub(super) fn finish(self, found: Found) -> Released {
        let released = match found {
            Found::Ours => Released::Released,
            Found::Unclear => Released::Unknown,
            // An earlier try that was never answered may have freed it, or handed it over.
            Found::Gone | Found::Stolen if self.is_unknown => Released::Unknown,
            Found::Gone => Released::Expired,
            Found::Stolen => Released::Stolen,
        };
        tell!(debug, key = self.claim.key.name(), ?released, "lock released");
        if self.remains.was_cut {
            clean_up(&self.engine, self.claim.clone(), None);
        }
        drop((self.freeing, self.late));
        if let Some(reply) = self.reply {
            shielded(|| reply.send(Ok(released)));
        }
        drop(self.pending);
        released
    }

    pub(super) fn give_up(self, fault: Fault) {
        let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let key = self.claim.key.name();
        if host::admits(&self.engine.reports, Kind::Unreleased, "") {
            tell!(warn, key, %nodes, "lock could not be released; it is free when its lease ends");
        } else {
            tell!(debug, key, %nodes, "lock could not be released; it is free when its lease ends");
        }
        if let Some(reply) = self.reply {
            shielded(|| reply.send(Err(fault)));
        }
    }
}

/// One try of a release.
pub(super) struct Question {
    claim: Claim,
    unused: Option<Drawn>,
    is_leaving: bool,
    within: Duration,
}

impl Question {
    pub(super) async fn ask(&self, way: &dyn Backend) -> Result<Found, Fault> {
        match (way.line(), self.unused) {
            (Some(line), _) if self.is_leaving => line.leave(&self.claim, 0, self.within).await,
            (Some(line), Some(drawn)) => line.give_back(&self.claim, drawn, self.within).await,
            _ => way.release(&self.claim, self.within).await,
        }
    }
}
