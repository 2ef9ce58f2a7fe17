//! The release of all keys of a hold, and its outcome.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::awaited::{Conclusion, awaited};
use super::background::in_background;
use super::inline_release::InlineRelease;
use super::release_future::{ReleaseFuture, ReleaseOutcome};
use super::task::ReleaseTask;
use crate::backend::{Fault, LockBackend, Release};
use crate::engine::Engine;
use crate::state::Released;
use crate::together::together;

/// Sends the releases of all keys of a hold, whose answers the caller awaits.
pub(crate) fn send_all(first: ReleaseTask, further: Vec<ReleaseTask>) -> ReleaseFuture {
    if further.is_empty() {
        return send(first);
    }
    let engine = Arc::clone(&first.engine);
    let tasks = std::iter::once(first).chain(further);
    match engine.route() {
        Some(route) => inline_all(&engine, tasks.collect(), route),
        None => all(tasks.map(send).collect()),
    }
}

/// Sends a release, whose answer the caller awaits.
fn send(task: ReleaseTask) -> ReleaseFuture {
    if let Some(route) = task.engine.route() {
        let engine = Arc::clone(&task.engine);
        return ReleaseFuture::here(&engine, awaited(task, route));
    }
    let (reply, answer) = oneshot::channel();
    in_background(ReleaseTask { reply: Some(reply), ..task });
    ReleaseFuture::InBackground(answer)
}

/// Sends the releases of several keys over `route`, with the first poll: with one command where
/// that reaches all of them. The background continues each of them by itself after a failure, or
/// when the future is dropped.
fn inline_all(
    engine: &Engine,
    tasks: Vec<ReleaseTask>,
    route: Arc<dyn LockBackend>,
) -> ReleaseFuture {
    let requests: Vec<Release<'_>> = tasks.iter().map(ReleaseTask::request).collect();
    let ability = route.abilities().release_all;
    if ability.is_none_or(|ability| !ability.reaches(&requests)) {
        let here = |task| ReleaseFuture::here(engine, awaited(task, Arc::clone(&route)));
        return all(tasks.into_iter().map(here).collect());
    }
    let releases = tasks.into_iter().map(InlineRelease::new).collect();
    ReleaseFuture::here(engine, send_together(releases, route))
}

async fn send_together(
    releases: Vec<InlineRelease>,
    route: Arc<dyn LockBackend>,
) -> Result<Released, Fault> {
    let answers = {
        let tasks: Vec<_> = releases.iter().filter_map(InlineRelease::task).collect();
        let requests: Vec<Release<'_>> = tasks.iter().map(|task| task.request()).collect();
        let within = tasks.iter().map(|task| task.engine.reply_timeout).min().unwrap_or_default();
        match route.abilities().release_all {
            Some(ability) => ability.release_all(&requests, within).await,
            None => unreachable!("it was asked whether it reaches them"),
        }
    };
    // All of them, before the outcome of the first is awaited.
    let conclude = |(release, answer): (InlineRelease, _)| release.conclude(answer);
    let conclusions: Vec<Conclusion> = releases.into_iter().zip(answers).map(conclude).collect();
    let mut worst = Ok(Released::Released);
    for conclusion in conclusions {
        worst = worse(worst, conclusion.outcome().await);
    }
    worst
}

/// Sends all of these at once. Resolves when each has its outcome, with the worst of them.
pub(crate) fn all(pending: Vec<ReleaseFuture>) -> ReleaseFuture {
    ReleaseFuture::All(Box::pin(async move {
        let outcomes: Option<Vec<_>> = together(pending).await.into_iter().collect();
        Some(outcomes?.into_iter().fold(Ok(Released::Released), worse))
    }))
}

/// The worse of two outcomes.
fn worse(one: ReleaseOutcome, other: ReleaseOutcome) -> ReleaseOutcome {
    let weight = |outcome: &ReleaseOutcome| match outcome {
        Ok(Released::Released) => 0,
        Ok(Released::Unknown) => 1,
        Ok(Released::Expired) => 2,
        Ok(Released::Stolen) => 3,
        Err(_) => 4,
    };
    if weight(&other) > weight(&one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::Mutex;
    use crate::process::{self, OfProcess};
    use crate::release::release_future::Sending;

    #[tokio::test]
    async fn the_worst_outcome_is_told() {
        let now = |released| ReleaseFuture::Now(released);
        assert_eq!(all(vec![]).await, Some(Ok(Released::Released)));
        let pending = vec![now(Released::Unknown), now(Released::Stolen), now(Released::Released)];
        assert_eq!(all(pending).await, Some(Ok(Released::Stolen)));
        let fault = Fault { nodes: Vec::new(), is_unknown: true, is_final: false };
        let failed = fault.clone();
        let failing: Sending = Box::pin(async move { Err(failed) });
        let failing = OfProcess::new(process::id(), failing);
        let failing = ReleaseFuture::Here(Mutex::new(failing));
        assert_eq!(all(vec![failing, now(Released::Expired)]).await, Some(Err(fault)));
        let (gone, answer) = tokio::sync::oneshot::channel();
        drop(gone);
        assert_eq!(
            all(vec![now(Released::Stolen), ReleaseFuture::InBackground(answer)]).await,
            None
        );
    }
}
