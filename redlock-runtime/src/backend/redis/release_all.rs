//! Releases several locks with one script, where one server has all of their keys.

use std::pin::Pin;
use std::time::Duration;

use deadpool_redis::redis::Value;
use tokio::time::Instant;

use super::clock::CLOCK;
use super::commands::{Deadline, Failure, exclusive, no_undo, send_script};
use super::connection::Source;
use super::route::Route;
use crate::backend::{EachReleased, Fault, Found, Release, ReleaseAll};
use crate::error::NodeErrorKind;
use crate::together::together;

impl<S: Source> ReleaseAll for Route<S> {
    /// The keys of a script have to be in one hash slot of a cluster.
    fn reaches(&self, releases: &[Release<'_>]) -> bool {
        let mut slots = releases.iter().map(|release| release.claim.key.slot());
        let first = slots.next();
        let are_together = S::LEADS_TO_ONE || slots.all(|slot| Some(slot) == first);
        let is_denied = || self.core.release_all_denial.lasts(|| CLOCK.now());
        are_together && releases.iter().all(Release::is_plain) && !is_denied()
    }

    fn release_all<'a>(
        &'a self,
        releases: &'a [Release<'a>],
        within: Duration,
    ) -> EachReleased<'a> {
        Box::pin(async move {
            let (core, deadline) = (&self.core, Deadline::after(within));
            for release in releases {
                core.pending_undos.over(&release.claim.owner);
            }
            let call = exclusive::release_all::call(releases);
            let decode = |value: &Value| exclusive::release_all::decode(value, releases.len());
            let health = &core.health;
            match send_script(health, &self.calls, &call, &deadline, decode, no_undo).await {
                Ok(answer) => {
                    core.release_all_denial.allowed();
                    let each = releases.iter().zip(answer.found);
                    each.map(|(one, found)| Ok(self.released(*one, found, answer.was_cut)))
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
        let one = async |release| {
            let left = end.saturating_duration_since(Instant::now());
            match self.release_over(release, left).await {
                Ok(Found::Gone | Found::Stolen) if was_cut => Ok(Found::Unclear),
                Ok(found) => Ok(found),
                Err(fault) => Err(Fault { is_unknown: fault.is_unknown || was_cut, ..fault }),
            }
        };
        let mut each: Vec<Pin<Box<dyn Future<Output = _> + Send + '_>>> = Vec::new();
        for release in releases {
            each.push(Box::pin(one(release)));
        }
        together(each).await
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
