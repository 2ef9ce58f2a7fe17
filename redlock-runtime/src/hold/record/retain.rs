//! `min_hold`: for how long the server keeps the lock, however early its holder lets go or dies.

use std::time::Duration;

use super::Hold;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::options::up_to_millis;

impl Hold {
    /// Does the lock stay taken for a while, however early it is released?
    pub(crate) fn has_min_hold(&self) -> bool {
        self.retained_until.is_some()
    }

    /// Until when the lock has to stay taken; `None`: it may be freed. A lock that its caller never
    /// took has protected nothing.
    pub(crate) fn retained_until(&self) -> Option<Moment> {
        let until = self.retained_until?;
        (self.offer.is_taken() && self.client.clock.now() < until).then_some(until)
    }

    /// Nothing has run under the lock, and nothing will: it may be freed at once.
    pub(crate) fn give_back(&self) {
        self.offer.give_back();
    }

    /// Notes that a renewal is sent `now`, and adds to `claims` what it asks for, for each key:
    /// `expire`, or what is left of `min_hold`. `false`: the hold has ended, and is not renewed.
    pub(crate) fn begin_renewal(&self, now: Moment, claims: &mut Vec<Claim>) -> bool {
        let mut ledger = self.ledger.lock();
        if ledger.ended.is_some() {
            return false;
        }
        ledger.renewal_sent = now;
        drop(ledger);
        let left = self.retained_until.map_or(Duration::ZERO, |until| until.since(now));
        let expire = self.terms.expire.max(up_to_millis(left));
        claims.extend(self.claims().map(|claim| Claim { expire, ..claim.clone() }));
        true
    }
}
