//! Acquires, or releases, several locks with one script, where one server has all of their keys.

use std::time::Duration;

use deadpool_redis::redis::Value;
use tokio::time::Instant;

use super::clock::CLOCK;
use super::commands::{Deadline, Failure, exclusive, no_undo, send_script};
use super::connection::{Loan, Source};
use super::route::Route;
use crate::backend::{
    AcquireAll, AllAcquired, Claim, EachReleased, Fault, Found, Release, ReleaseAll, Reply,
};
use crate::error::NodeErrorKind;
use crate::together::together;

impl<S: Source> AcquireAll for Route<S> {
    fn reaches(&self, claims: &[Claim]) -> bool {
        are_together::<S>(claims.iter()) && !self.core.all_denial.lasts(|| CLOCK.now())
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

impl<S: Source> ReleaseAll for Route<S> {
    fn reaches(&self, releases: &[Release<'_>]) -> bool {
        are_together::<S>(releases.iter().map(|release| release.claim))
            && releases.iter().all(Release::is_plain)
            && !self.core.release_all_denial.lasts(|| CLOCK.now())
    }

    fn release_all<'a>(
        &'a self,
        releases: &'a [Release<'a>],
        within: Duration,
    ) -> EachReleased<'a> {
        Box::pin(async move {
            let (core, deadline) = (&self.core, Deadline::after(within));
            for release in releases {
                self.retire_owner(release);
            }
            let call = exclusive::release_all::call(releases);
            let decode = |value: &Value| exclusive::release_all::decode(value, releases.len());
            let health = &core.health;
            match send_script(health, &self.calls, &call, &deadline, decode, no_undo).await {
                Ok(answer) => {
                    core.release_all_denial.allowed();
                    let each = releases.iter().zip(answer.found);
                    each.map(|(one, found)| Ok(self.conclude_release(*one, found, answer.was_cut)))
                        .collect()
                }
                Err(failure) if is_refused::<S>(&failure) => {
                    if failure.error.kind() == NodeErrorKind::NoPermission {
                        core.release_all_denial.denied(CLOCK.now());
                    }
                    self.release_each(releases, failure.is_unknown, deadline.end).await
                }
                Err(failure) => {
                    let fault = Fault::from(failure);
                    releases.iter().map(|_| Err(fault.clone())).collect()
                }
            }
        })
    }
}

impl<S: Source> Route<S> {
    /// `was_cut`: a first try of all of them may have been carried out.
    async fn release_each(
        &self,
        releases: &[Release<'_>],
        was_cut: bool,
        end: Instant,
    ) -> Vec<Result<Found, Fault>> {
        let left = end.saturating_duration_since(Instant::now());
        let each = releases.iter().map(|release| self.release_over(release, left, was_cut));
        together(each.map(Box::pin).collect()).await
    }
}

/// Perhaps the locks are not out of reach, but this script: a stricter user may not know it, or not
/// the queues, and in a cluster some of its keys may have moved to another server.
fn is_refused<S: Source>(failure: &Failure) -> bool {
    match failure.error.kind() {
        NodeErrorKind::NoPermission => true,
        NodeErrorKind::Cluster => !S::LEADS_TO_ONE,
        _ => false,
    }
}

/// The keys of a script have to be in one hash slot of a cluster.
fn are_together<'a, S: Source>(claims: impl Iterator<Item = &'a Claim>) -> bool {
    let mut slots = claims.map(|claim| claim.key.slot());
    let first = slots.next();
    S::LEADS_TO_ONE || slots.all(|slot| Some(slot) == first)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::backend::CLAIM_WINDOW;
    use crate::backend::redis::connection::InTurn;
    use crate::backend::redis::node_core::{NodeCore, NodeOptions};
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;

    /// That first try may have handed the locks over, to processes that have died since.
    #[tokio::test(start_paused = true)]
    async fn locks_that_a_cut_first_try_may_have_handed_over_are_looked_at_again() {
        let server = InTurn::new(["", "-NOPERM no such script", ":0", ":0"]);
        let core = NodeCore::new("n".to_owned(), server.clone(), NodeOptions::default());
        core.identity.denied();
        let route = Route::new(core);
        let claims = ["a", "b"].map(|name| Claim {
            key: LockKey::new("lock:", name).unwrap(),
            owner: Owner::of_nobody("t"),
            expire: Duration::from_secs(9),
            kind: Kind::Exclusive,
        });
        let releases = claims.each_ref().map(Release::of);
        let found = route.release_all(&releases, Duration::from_secs(60)).await;
        assert_eq!(found, [Ok(Found::Unclear), Ok(Found::Unclear)]);
        assert_eq!(server.left(), 0, "all answers were needed");
        let overdue = timeout(2 * CLAIM_WINDOW, route.core.handovers.overdue()).await.unwrap();
        let looked_at: Vec<_> = overdue.into_iter().map(|(key, _)| key).collect();
        assert_eq!(looked_at, claims.map(|claim| claim.key));
    }
}
