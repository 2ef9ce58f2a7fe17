//! What a renewal changes in the record, whether it was confirmed or not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Hold;
use crate::clock::Moment;
use crate::hold::confirmed_lease::ConfirmedLease;
use crate::shield::tell;
use crate::{telemetry, validity};

impl Hold {
    /// A renewal sent at `sent` was confirmed. After the stop it does not bring the lease back.
    pub(crate) fn extend(&self, sent: Moment) {
        if self.lose_if_due(self.client.clock.now()) {
            return;
        }
        let (renewals, is_renewal) = {
            let mut ledger = self.ledger.lock();
            // Answers to two renewals may come in either order.
            if ledger.ended.is_some() || sent < ledger.confirmed.sent {
                return;
            }
            // A claim of a lock that was handed over does not count as a renewal.
            let is_renewal = ledger.is_claimed(&self.terms);
            ledger.renewals = ledger.renewals.saturating_add(is_renewal.into());
            ledger.confirmed = ConfirmedLease { sent, lease: self.terms.expire };
            ledger.is_uncertain = false;
            let stop = validity::stop(sent, self.terms.expire).min(self.longest_hold());
            self.stop.store(stop.nanos(), Ordering::Release);
            (ledger.renewals, is_renewal)
        };
        // Outside of the mutex: recorders and subscribers run foreign code.
        if is_renewal {
            telemetry::renewal(self.terms.template, true);
        }
        tell!(debug, key = self.claim.key.name(), renewals, "lease renewed");
    }

    /// A renewal failed, or was not answered. Reports this once until a renewal is confirmed again.
    pub(crate) fn doubt(&self, nodes: &str) {
        let (is_renewal, is_new) = {
            let mut ledger = self.ledger.lock();
            let is_new =
                ledger.ended.is_none() && !std::mem::replace(&mut ledger.is_uncertain, true);
            (ledger.is_claimed(&self.terms), is_new)
        };
        if is_renewal {
            telemetry::renewal(self.terms.template, false);
        }
        if is_new {
            tell!(
                debug,
                key = self.claim.key.name(),
                remaining = ?self.remaining(),
                nodes,
                "lease uncertain: a renewal was not confirmed, it is tried again"
            );
        }
    }

    /// By how much a renewal may be early. With `max_renew`, an early renewal would shorten the
    /// longest hold.
    pub(crate) fn leeway(&self) -> Duration {
        match self.terms.max_renew {
            Some(_) => Duration::ZERO,
            None => validity::renewal_leeway(self.terms.expire),
        }
    }
}
