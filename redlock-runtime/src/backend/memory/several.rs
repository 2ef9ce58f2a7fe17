//! Several locks of the embedded backend at once.

use std::time::Duration;

use super::lease_clock::LeaseClock;
use super::tables::{Holder, Record};
use super::{Memory, other_clock};
use crate::backend::{AcquireAll, AllAcquired, Claim, Fault, Reply};
use crate::clock::Clock;

impl Memory {
    /// All of them, or none.
    fn take_all(&self, claims: &[Claim]) -> Result<AllAcquired, Fault> {
        let (now, here) = (Clock::Tokio.now(), LeaseClock::here());
        let mut tables = self.store.tables.lock();
        for (key_index, claim) in claims.iter().enumerate() {
            let key = claim.key.redis_key();
            if tables.is_held_elsewhere(key, &here, now) {
                return Err(other_clock());
            }
            let is_kept_out = tables.is_kept_out(claim, now);
            let refused = |holder, free_in| {
                Ok(AllAcquired::Refused { key_index, holder, free_in, was_cut: false })
            };
            if let Some(record) = tables.live(key, now) {
                if record.kind.is_shared() || record.of_owner(claim).is_none() {
                    let free_in = record.ends(claim.kind).since(now);
                    return refused(Some(record.shown()), Some(free_in));
                }
            } else if is_kept_out {
                return refused(None, None);
            }
        }
        let fencing_token = tables.next_token();
        for claim in claims {
            let (owner, ends) = (claim.owner.as_str().to_owned(), now.plus(claim.expire));
            let record = Record::of(claim.kind, Holder { owner, fencing_token, ends });
            tables.locks.insert(claim.key.redis_key().to_owned(), record);
        }
        tables.sweep(&here, now);
        Ok(AllAcquired::Granted { fencing_token, was_cut: false })
    }
}

impl AcquireAll for Memory {
    fn reaches(&self, _: &[Claim]) -> bool {
        true
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim], _: Duration) -> Reply<'a, AllAcquired> {
        let answer = self.take_all(claims);
        Box::pin(async move { answer })
    }
}
