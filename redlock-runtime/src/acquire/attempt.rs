//! One question to the backend, and what follows from its answer.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Seat;
use super::wait_loop::Order;
use crate::backend::{Acquired, Claim, Fault};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::owner::Owner;
use crate::release::{self, Ownership};
use crate::renewal::{Grant, Hold};
use crate::telemetry;

/// What one attempt came to.
pub(super) enum Outcome {
    Granted(Ownership),
    /// Somebody else holds the lock.
    Busy {
        holder: String,
        free_in: Option<Duration>,
        /// Nobody holds it: several asked at once, and none got enough nodes.
        is_split: bool,
    },
    /// Granted, but with nothing of the lease left; given back.
    TooLate {
        took: Duration,
    },
    Failed(Fault),
}

/// Makes the attempts of one acquisition.
pub(super) struct Attempts<'a> {
    engine: &'a Arc<Engine>,
    order: &'a Order,
    started: Moment,
    owner: Owner,
    pub(super) count: u32,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(engine: &'a Arc<Engine>, order: &'a Order, started: Moment) -> Self {
        Self { engine, order, started, owner: Owner::fresh(&engine.client_name), count: 0 }
    }

    /// Asks once. Not to be dropped half-way: the answer would be lost.
    pub(super) async fn attempt(
        &mut self,
        seat: &Seat,
        within: Duration,
    ) -> Result<Outcome, LockError> {
        self.count = self.count.saturating_add(1);
        telemetry::attempt(self.order.template);
        let engine = self.engine;
        let claim = Claim {
            key: self.order.key.clone(),
            owner: self.owner.clone(),
            expire: self.order.policy.expire(),
        };
        let _pending = engine.pending.begin();
        // Before the command leaves: the server may begin the lease at any time after this.
        let sent_at = engine.clock().now();
        match engine.backend.acquire(&claim, within).await {
            Ok(Acquired::Granted { fencing_token }) => {
                let hold = Arc::new(Hold::new(Grant {
                    client: engine.id,
                    template: self.order.template,
                    claim,
                    fencing_token,
                    max_renew: self.order.policy.max_renew(),
                    backend: Arc::clone(&engine.backend),
                    reply_timeout: engine.reply_timeout,
                    clock: engine.clock(),
                    sent: sent_at,
                    waited: sent_at.since(self.started),
                }));
                self.take(&hold, seat)
            }
            Ok(Acquired::Refused { holder, free_in, was_cut, is_split }) => {
                if was_cut {
                    self.give_up_owner(claim);
                }
                Ok(Outcome::Busy { holder, free_in, is_split })
            }
            Err(fault) => {
                if fault.is_unknown {
                    self.give_up_owner(claim);
                }
                Ok(Outcome::Failed(fault))
            }
        }
    }

    /// A command of this owner may land late, so a clean-up goes behind it. The owner must never be
    /// used again: the clean-up would take its lock away.
    fn give_up_owner(&mut self, claim: Claim) {
        self.owner = Owner::fresh(&self.engine.client_name);
        release::clean_up(self.engine, claim);
    }

    fn take(&mut self, hold: &Arc<Hold>, seat: &Seat) -> Result<Outcome, LockError> {
        let engine = self.engine;
        let scheduler = engine.scheduler();
        // From here on a drop releases.
        let seat = seat.another().hold();
        let ownership =
            Ownership::new(Arc::clone(hold), Arc::clone(engine), Arc::clone(&scheduler), seat);
        if hold.check().is_err() {
            self.owner = Owner::fresh(&engine.client_name);
            return Ok(Outcome::TooLate { took: hold.held_for() });
        }
        scheduler.register(hold)?;
        Ok(Outcome::Granted(ownership))
    }
}
