//! Acquires several locks with one script, where one server has all of their keys.

use std::time::Duration;

use deadpool_redis::redis::Value;

use super::clock::CLOCK;
use super::commands::{Deadline, exclusive, send_script};
use super::connection::{Loan, Source};
use super::route::Route;
use crate::backend::{AcquireAll, AllAcquired, Claim, Reply};
use crate::error::NodeErrorKind;

impl<S: Source> AcquireAll for Route<S> {
    /// The keys of a script have to be in one hash slot of a cluster.
    fn reaches(&self, claims: &[Claim]) -> bool {
        let mut slots = claims.iter().map(|claim| claim.key.slot());
        let first = slots.next();
        let are_together = S::LEADS_TO_ONE || slots.all(|slot| Some(slot) == first);
        are_together && !self.core.all_denial.lasts(|| CLOCK.now())
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, AllAcquired> {
        Box::pin(async move {
            let core = &self.core;
            let call = exclusive::acquire_all::call(claims);
            let undo = |loan: Loan<S::Connection>| {
                for claim in claims {
                    core.undo(self.home.as_ref(), loan.clone(), claim, false);
                }
            };
            let decode = |value: &Value| exclusive::acquire_all::decode(value, claims.len());
            let deadline = Deadline::after(within);
            let sent = send_script(&core.health, &self.calls, &call, &deadline, decode, undo).await;
            let answer = sent.inspect_err(|failure| {
                // A stricter user may not know this script.
                if failure.error.kind() == NodeErrorKind::NoPermission {
                    core.all_denial.denied(CLOCK.now());
                }
            })?;
            core.heard_time(answer.found.micros, answer.sent);
            core.all_denial.allowed();
            let mut found = answer.found.found;
            let (AllAcquired::Granted { was_cut, .. } | AllAcquired::Refused { was_cut, .. }) =
                &mut found;
            *was_cut = answer.was_cut;
            Ok(found)
        })
    }
}
