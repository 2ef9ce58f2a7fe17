//! A release that is sent from the caller's runtime, which may stop at any moment.

use std::sync::{Arc, Mutex, PoisonError};

use super::all_releases::{all, worse};
use super::release_future::ReleaseFuture;
use super::task::{ReleaseAttempt, ReleaseTask};
use crate::backend::{Fault, Found, LockBackend, Release};
use crate::shield::tell;
use crate::state::Released;

/// The task, until the inline send or the background takes it.
struct InlineRelease {
    task: Mutex<Option<ReleaseTask>>,
}

impl InlineRelease {
    fn take(&self) -> Option<ReleaseTask> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the answer to the release means for its caller.
    fn settle(&self, answer: Result<Found, Fault>) -> Result<Released, Fault> {
        match answer {
            Ok(found) => Ok(self.take().map_or(Released::Released, |task| task.finish(found))),
            Err(fault) => {
                if fault.is_final {
                    if let Some(task) = self.take() {
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
    fn hand_over(&self, failed: Option<&Fault>) {
        let Some(mut task) = self.take() else { return };
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

/// Hands the task over to the background when it is dropped before the answer came.
struct InlineGuard(Arc<InlineRelease>);

impl Drop for InlineGuard {
    fn drop(&mut self) {
        self.0.hand_over(None);
    }
}

/// Sends one release over `route`, with the first poll. The background continues it after a
/// failure, or when the future is dropped.
pub(crate) fn inline(
    task: ReleaseTask,
    route: Arc<dyn LockBackend>,
) -> impl Future<Output = Result<Released, Fault>> + Send + 'static {
    send(InlineGuard(Arc::new(InlineRelease { task: Mutex::new(Some(task)) })), route)
}

async fn send(guard: InlineGuard, route: Arc<dyn LockBackend>) -> Result<Released, Fault> {
    let release = &*guard.0;
    let attempt = {
        let task = release.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.as_ref().map(ReleaseTask::attempt)
    };
    // The background has taken the task over already.
    let Some(attempt) = attempt else { return Ok(Released::Released) };
    release.settle(attempt.send(&*route).await)
}

/// Sends the releases of several keys over `route`, with the first poll: with one command where
/// that reaches all of them. The background continues each of them by itself after a failure, or
/// when the future is dropped.
pub(crate) fn inline_all(tasks: Vec<ReleaseTask>, route: Arc<dyn LockBackend>) -> ReleaseFuture {
    let attempts: Vec<ReleaseAttempt> = tasks.iter().map(ReleaseTask::attempt).collect();
    let releases: Vec<Release<'_>> = attempts.iter().map(ReleaseAttempt::release).collect();
    let ability = route.abilities().release_all;
    if ability.is_none_or(|ability| !ability.reaches(&releases)) {
        let here = |task| ReleaseFuture::here(inline(task, Arc::clone(&route)));
        return all(tasks.into_iter().map(here).collect());
    }
    let guard = |task| InlineGuard(Arc::new(InlineRelease { task: Mutex::new(Some(task)) }));
    let guards = tasks.into_iter().map(guard).collect();
    ReleaseFuture::here(send_all(guards, attempts, route))
}

async fn send_all(
    guards: Vec<InlineGuard>,
    attempts: Vec<ReleaseAttempt>,
    route: Arc<dyn LockBackend>,
) -> Result<Released, Fault> {
    let releases: Vec<Release<'_>> = attempts.iter().map(ReleaseAttempt::release).collect();
    let within = attempts.iter().map(ReleaseAttempt::within).min().unwrap_or_default();
    let answers = match route.abilities().release_all {
        Some(ability) => ability.release_all(&releases, within).await,
        None => unreachable!("it was asked whether it reaches them"),
    };
    let outcomes = guards.iter().zip(answers).map(|(guard, answer)| guard.0.settle(answer));
    outcomes.reduce(worse).unwrap_or(Ok(Released::Released))
}
