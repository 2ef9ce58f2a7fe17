//! The state of one lease: what was confirmed of it, and how it ended.

use std::time::Duration;

use super::confirmed_lease::ConfirmedLease;
use super::terms::Terms;
use crate::clock::Moment;
use crate::state::LostReason;
use crate::validity;

/// How long a body may run under a lock that was handed over before the lock is claimed.
const CLAIM_AFTER: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Ledger {
    /// The last confirmed acquire or renewal. It granted `expire`, or less before the lock was
    /// claimed.
    pub(crate) confirmed: ConfirmedLease,
    /// When the last renewal was sent: it may have been carried out without an answer.
    pub(crate) renewal_sent: Moment,
    pub(crate) renewals: u32,
    /// A renewal failed and none has been confirmed since.
    pub(crate) is_uncertain: bool,
    pub(crate) ended: Option<Ended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) at: Moment,
    pub(crate) how: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    /// Its caller never took it.
    Withdrawn,
    Lost(Loss),
}

/// Why the lease was lost, and of which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) reason: LostReason,
    /// Which key of the hold was found lost. 0 is the first one, and stands for all of them where
    /// their time was up.
    pub(crate) key_index: usize,
}

impl Ledger {
    pub(crate) fn new(confirmed: ConfirmedLease) -> Self {
        let renewal_sent = confirmed.sent;
        Self { confirmed, renewal_sent, renewals: 0, is_uncertain: false, ended: None }
    }

    /// When the next renewal is, or was, due, for a hold that began at `begun`.
    pub(crate) fn due(&self, terms: &Terms, begun: Moment) -> Moment {
        if self.is_used_up(terms) {
            Moment::NEVER
        } else if self.is_claimed(terms) {
            validity::renewal_due(self.confirmed.sent, self.confirmed.lease)
        } else {
            // Most bodies are done before, and never need to claim.
            begun.plus(CLAIM_AFTER)
        }
    }

    /// A lock that was handed over has a short lease only, until its new holder claims a full one.
    pub(crate) fn is_claimed(&self, terms: &Terms) -> bool {
        self.confirmed.lease >= terms.expire
    }

    /// Are there no renewals left?
    pub(crate) fn is_used_up(&self, terms: &Terms) -> bool {
        self.is_claimed(terms) && terms.max_renew.is_some_and(|limit| self.renewals >= limit)
    }

    pub(crate) fn end(&mut self, at: Moment, how: End) {
        self.ended = Some(Ended { at, how });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRE: Duration = Duration::from_secs(10);

    /// A lease of this length that was renewed so often, of a hold with two renewals.
    fn is_used_up(lease: Duration, renewals: u32) -> bool {
        let terms = Terms { max_renew: Some(2), ..Terms::of_plain_call(EXPIRE, Moment::ZERO) };
        let confirmed = ConfirmedLease { sent: Moment::ZERO, lease };
        let ledger = Ledger { renewals, ..Ledger::new(confirmed) };
        let is_used_up = ledger.is_used_up(&terms);
        assert_eq!(ledger.due(&terms, Moment::ZERO) == Moment::NEVER, is_used_up);
        is_used_up
    }

    #[test]
    fn the_renewals_of_a_lease_are_limited_once_it_was_claimed() {
        assert_eq!([0, 1, 2, 3].map(|n| is_used_up(EXPIRE, n)), [false, false, true, true]);
        assert!(is_used_up(2 * EXPIRE, 2));
        assert!(!is_used_up(EXPIRE / 2, 2));
    }
}
