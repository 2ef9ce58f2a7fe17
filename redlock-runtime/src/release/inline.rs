//! A release that is sent from the caller's runtime, which may stop at any moment.

use std::sync::Arc;

use super::all_releases::{all, worse};
use super::release_future::ReleaseFuture;
use super::task::{ReleaseAttempt, ReleaseTask};
use crate::backend::{Fault, Found, LockBackend, Release};
use crate::shield::tell;
use crate::state::Released;

/// A release that is on its way. If it is dropped before its answer came, the background takes it.
struct InlineRelease(Option<ReleaseTask>);

impl InlineRelease {
    fn new(task: ReleaseTask) -> Self {
        Self(Some(task))
    }

    fn attempt(&self) -> Option<ReleaseAttempt<'_>> {
        self.0.as_ref().map(ReleaseTask::attempt)
    }

    /// What the answer to the release means for its caller.
    fn settle(&mut self, answer: Result<Found, Fault>) -> Result<Released, Fault> {
        match answer {
            Ok(found) => Ok(self.0.take().map_or(Released::Released, |task| task.finish(found))),
            Err(fault) => {
                if fault.is_final {
                    if let Some(task) = self.0.take() {
                        task.give_up(fault.clone());
                    }
                } else {
                    self.hand_over(Some(&fault));
                }
                Err(fault)
            }
        }
    }

    /// The background sends the release from here on, beginning anew. `failed`: why the try here
    /// has failed; `None`: its answer is not known.
    fn hand_over(&mut self, failed: Option<&Fault>) {
        let Some(mut task) = self.0.take() else { return };
        if task.engine.check_process().is_err() {
            // This is a copy in the child of a fork: the parent sends the release.
            return std::mem::forget(task);
        }
        match failed {
            Some(fault) => task.has_failed(fault),
            None => task.is_unknown = true,
        }
        let (executor, key) = (task.engine.executor(), task.claim.key.clone());
        if let Err(error) = executor.spawn(task.in_background()) {
            tell!(warn, key = key.name(), %error, "lock not released");
        }
    }
}

impl Drop for InlineRelease {
    fn drop(&mut self) {
        self.hand_over(None);
    }
}

/// Sends one release over `route`, with the first poll. The background continues it after a
/// failure, or when the future is dropped.
pub(crate) fn inline(
    task: ReleaseTask,
    route: Arc<dyn LockBackend>,
) -> impl Future<Output = Result<Released, Fault>> + Send + 'static {
    let mut release = InlineRelease::new(task);
    async move {
        let answer = match release.attempt() {
            Some(attempt) => attempt.send(&*route).await,
            None => unreachable!("it was just made"),
        };
        release.settle(answer)
    }
}

/// Sends the releases of several keys over `route`, with the first poll: with one command where
/// that reaches all of them. The background continues each of them by itself after a failure, or
/// when the future is dropped.
pub(crate) fn inline_all(tasks: Vec<ReleaseTask>, route: Arc<dyn LockBackend>) -> ReleaseFuture {
    let attempts: Vec<ReleaseAttempt<'_>> = tasks.iter().map(ReleaseTask::attempt).collect();
    let releases: Vec<Release<'_>> = attempts.iter().map(ReleaseAttempt::release).collect();
    let ability = route.abilities().release_all;
    if ability.is_none_or(|ability| !ability.reaches(&releases)) {
        let here = |task| ReleaseFuture::here(inline(task, Arc::clone(&route)));
        return all(tasks.into_iter().map(here).collect());
    }
    let releases = tasks.into_iter().map(InlineRelease::new).collect();
    ReleaseFuture::here(send_all(releases, route))
}

async fn send_all(
    mut releases: Vec<InlineRelease>,
    route: Arc<dyn LockBackend>,
) -> Result<Released, Fault> {
    let answers = {
        let attempts: Vec<_> = releases.iter().filter_map(InlineRelease::attempt).collect();
        let requests: Vec<Release<'_>> = attempts.iter().map(ReleaseAttempt::release).collect();
        let within = attempts.iter().map(ReleaseAttempt::within).min().unwrap_or_default();
        match route.abilities().release_all {
            Some(ability) => ability.release_all(&requests, within).await,
            None => unreachable!("it was asked whether it reaches them"),
        }
    };
    let outcomes = releases.iter_mut().zip(answers).map(|(release, answer)| release.settle(answer));
    outcomes.reduce(worse).unwrap_or(Ok(Released::Released))
}
