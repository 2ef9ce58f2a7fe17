//! What the poller does with a lock that was granted.

use std::sync::Arc;

use super::poller::Poller;
use crate::acquire::{Observed, Outcome, Terms, ask};
use crate::backend::Claim;
use crate::clock::Moment;
use crate::handoff::{Given, give};
use crate::hold::Tenure;
use crate::local_queue::Waiter;

/// Whom a lock that was granted suits.
enum Fit {
    Waiter(Waiter),
    /// Nobody, before it is a lease as they want it.
    Claim(Terms),
    Nobody,
}

impl Poller {
    /// Gives the lock to the first who waits, with a lease as they want it.
    pub(crate) async fn settle(&mut self, mut tenure: Tenure) {
        self.polls = 0;
        self.ask_at = Moment::ZERO;
        self.linger();
        loop {
            let waiter = match self.next_for(&tenure) {
                Fit::Waiter(waiter) => waiter,
                Fit::Nobody => return crate::handoff::free(&self.engine, &tenure),
                Fit::Claim(terms) => {
                    match self.claim(tenure, terms).await {
                        Some(claimed) => tenure = claimed,
                        None => return,
                    }
                    continue;
                }
            };
            match give(&self.engine, &self.handle, tenure, waiter, None) {
                Given::Taken => self.seen = Observed::default(),
                Given::TooLate(waiter, took) => {
                    self.seen.too_late(took, waiter.terms.expire);
                    self.handle.put_back(waiter);
                }
                Given::Back(unwanted) => {
                    tenure = unwanted;
                    continue;
                }
            }
            return;
        }
    }

    fn next_for(&self, tenure: &Tenure) -> Fit {
        let now = self.now();
        let mut state = self.handle.queue.state();
        let Some(terms) = state.first().map(|waiter| waiter.terms) else { return Fit::Nobody };
        if tenure.suits(terms.expire, now) {
            state.promise().map_or(Fit::Nobody, Fit::Waiter)
        } else if self.engine.fifo_queue().is_some() && tenure.may_become(terms.expire) {
            Fit::Claim(terms)
        } else {
            // Another one has come to the front meanwhile, who wants another lease.
            Fit::Nobody
        }
    }

    /// Makes a lock that is ours a full lease of the length that is wanted now.
    async fn claim(&mut self, tenure: Tenure, terms: Terms) -> Option<Tenure> {
        let claim = Claim { expire: terms.expire, ..tenure.claim.clone() };
        let engine = Arc::clone(&self.engine);
        let within = self.within(self.now());
        let question = ask(&engine, &*engine.backend, &claim, terms.template, within);
        match self.patiently(question).await {
            Outcome::Granted(granted) => Some(tenure.claimed(granted)),
            Outcome::Busy { holder, free_in, .. } => {
                // It was not ours any more: everyone starts again.
                self.seen.busy(holder, free_in, self.now());
                None
            }
            Outcome::Failed(fault) => {
                if !fault.is_unknown {
                    crate::handoff::free(&engine, &tenure);
                }
                self.ask_at = self.now().plus(self.failed(fault));
                None
            }
        }
    }
}
