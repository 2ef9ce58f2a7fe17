//! Acquires, or releases, several locks with one script, where one server has all of their keys.

use std::time::Duration;

use deadpool_redis::redis::Value;
use tokio::time::Instant;

use super::clock::CLOCK;
use super::commands::{Deadline, Failure, exclusive, no_undo, send_script};
use super::connection::{Loan, Source};
use super::route::{Route, is_about_slots};
use crate::backend::{
    AcquireAll, AllAcquired, Claim, EachReleased, Fault, Found, Release, ReleaseAll, Reply,
};
use crate::error::{NodeError, NodeErrorKind};
use crate::together::together;

impl<S: Source> AcquireAll for Route<S> {
    fn reaches(&self, claims: &[Claim]) -> bool {
        self.are_together(claims.iter()) && !self.core.all_denial.lasts(|| CLOCK.now())
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
            let sent =
                send_script(&core.health, &self.connection, &call, &deadline, decode, undo).await;
            let answer = sent.inspect_err(|failure| {
                // A stricter user may not know this script.
                if failure.error.kind() == NodeErrorKind::NoPermission {
                    core.all_denial.denied(CLOCK.now());
                }
                self.note_refused(&failure.error);
            })?;
            core.heard_time(answer.reply.micros, answer.sent);
            core.all_denial.allowed();
            self.note_together(claims.iter());
            let mut found = answer.reply.found;
            let (AllAcquired::Granted { was_cut, .. } | AllAcquired::Refused { was_cut, .. }) =
                &mut found;
            *was_cut = answer.was_cut;
            Ok(found)
        })
    }
}

impl<S: Source> ReleaseAll for Route<S> {
    fn reaches(&self, releases: &[Release<'_>]) -> bool {
        self.are_together(releases.iter().map(|release| release.claim))
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
            match send_script(health, &self.connection, &call, &deadline, decode, no_undo).await {
                Ok(answer) => {
                    self.note_together(releases.iter().map(|release| release.claim));
                    core.release_all_denial.allowed();
                    let each = releases.iter().zip(answer.reply);
                    each.map(|(one, found)| Ok(self.conclude_release(*one, found, answer.was_cut)))
                        .collect()
                }
                Err(failure) if is_refused::<S>(&failure) => {
                    if failure.error.kind() == NodeErrorKind::NoPermission {
                        core.release_all_denial.denied(CLOCK.now());
                    }
                    self.note_refused(&failure.error);
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
    /// May one script name the keys of all of these? In a cluster they have to be in one hash slot.
    /// So they have where the address of one server leads to a cluster, by way of a proxy: a script
    /// that is refused shows it.
    pub(super) fn are_together<'a>(&self, claims: impl Iterator<Item = &'a Claim>) -> bool {
        let may_cross = S::LEADS_TO_ONE && !self.core.slots_denial.lasts(|| CLOCK.now());
        may_cross || are_in_one_slot(claims)
    }

    /// A script that names the keys of these was answered.
    pub(super) fn note_together<'a>(&self, claims: impl Iterator<Item = &'a Claim>) {
        let denial = &self.core.slots_denial;
        if denial.was_denied() && !are_in_one_slot(claims) {
            denial.allowed();
        }
    }

    /// A script that names the keys of several locks was refused.
    pub(super) fn note_refused(&self, error: &NodeError) {
        if is_about_slots(error) {
            self.core.slots_denial.denied(CLOCK.now());
        }
    }

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
/// the queues, a cluster refuses keys of several hash slots, and some of them may have moved to
/// another of its servers.
fn is_refused<S: Source>(failure: &Failure) -> bool {
    match failure.error.kind() {
        NodeErrorKind::NoPermission => true,
        NodeErrorKind::Cluster => !S::LEADS_TO_ONE || is_about_slots(&failure.error),
        _ => false,
    }
}

fn are_in_one_slot<'a>(claims: impl Iterator<Item = &'a Claim>) -> bool {
    let mut slots = claims.map(|claim| claim.key.slot());
    let first = slots.next();
    slots.all(|slot| Some(slot) == first)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::backend::CLAIM_WINDOW;
    use crate::backend::redis::connection::InTurn;
    use crate::backend::redis::node_core::{NodeCore, NodeOptions};
    use crate::clock::Moment;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;

    const WITHIN: Duration = Duration::from_secs(60);

    /// To a server that does not say who it is.
    fn route(server: InTurn) -> Route<InTurn> {
        let core = NodeCore::new("n".to_owned(), server, NodeOptions::default());
        core.identity.info_denial.denied(Moment::NEVER);
        Route::new(core)
    }

    fn claims(names: [&str; 2]) -> [Claim; 2] {
        names.map(|name| Claim {
            key: LockKey::new("lock:", name).unwrap(),
            owner: Owner::of_nobody("t"),
            expire: Duration::from_secs(9),
            kind: Kind::Exclusive,
        })
    }

    /// That first try may have handed the locks over, to processes that have died since.
    #[tokio::test(start_paused = true)]
    async fn locks_that_a_cut_first_try_may_have_handed_over_are_looked_at_again() {
        let server = InTurn::new(["", "-NOPERM no such script", ":0", ":0"]);
        let (route, claims) = (route(server.clone()), claims(["a", "b"]));
        let releases = claims.each_ref().map(Release::of);
        let found = route.release_all(&releases, WITHIN).await;
        assert_eq!(found, [Ok(Found::Unclear), Ok(Found::Unclear)]);
        assert_eq!(server.left(), 0, "all answers were needed");
        let overdue = timeout(2 * CLAIM_WINDOW, route.core.handovers.overdue()).await.unwrap();
        let looked_at: Vec<_> = overdue.into_iter().map(|(key, _)| key).collect();
        assert_eq!(looked_at, claims.map(|claim| claim.key));
    }

    const CROSSED: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

    /// A proxy before a cluster, or one of its servers, which was not asked what it is.
    #[tokio::test]
    async fn locks_whose_keys_one_script_may_not_name_are_released_one_by_one() {
        let server = InTurn::new([CROSSED, ":1", ":1"]);
        let (route, claims) = (route(server.clone()), claims(["a", "b"]));
        let releases = claims.each_ref().map(Release::of);
        assert!(ReleaseAll::reaches(&route, &releases));
        let found = route.release_all(&releases, WITHIN).await;
        assert_eq!((found, server.left()), (vec![Ok(Found::Ours); 2], 0));
        assert!(route.core.slots_denial.was_denied());
    }

    #[tokio::test]
    async fn a_server_that_refuses_keys_of_several_slots_is_not_sent_them_again_for_a_while() {
        const GRANTED: &str = "$19\r\n1795000000000000 17";
        let server = InTurn::new([CROSSED, GRANTED, GRANTED]);
        let (route, apart) = (route(server.clone()), claims(["a", "b"]));
        let joined = claims(["{x}a", "{x}b"]);
        let reached = || {
            let reaches = |claims: &[Claim; 2]| {
                let releases = claims.each_ref().map(Release::of);
                let reaches_releases = ReleaseAll::reaches(&route, &releases);
                assert_eq!(reaches_releases, AcquireAll::reaches(&route, claims));
                reaches_releases
            };
            [reaches(&apart), reaches(&joined)]
        };
        assert_eq!(reached(), [true, true]);
        let fault = route.acquire_all(&apart, WITHIN).await.unwrap_err();
        assert!(!fault.is_unknown, "{fault:?}");
        let denial = &route.core.slots_denial;
        assert!(denial.was_denied());
        // However slow this test is.
        denial.allowed();
        denial.denied(CLOCK.now().plus(Duration::from_secs(3600)));
        assert_eq!(reached(), [false, true]);
        assert!(route.acquire_all(&joined, WITHIN).await.is_ok());
        assert_eq!(reached(), [false, true], "this says nothing of other slots");
        assert!(route.acquire_all(&apart, WITHIN).await.is_ok());
        assert_eq!(reached(), [true, true]);
    }
}
