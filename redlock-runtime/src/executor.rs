//! Where the tasks of an engine run.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::background_thread::lasting_work::{self, LastingWork};
use super::background_thread::{self, stopped};
use super::clock::{Clock, Moment, paused_runtime};
use super::process::{self, OfProcess};
use super::report::{Admission, Reports, Topic};
use crate::error::LockError;

/// Is this line to be written in full? Otherwise it is counted for a summary.
pub(crate) fn admits(reports: &Arc<Reports>, kind: Topic, template: &'static str) -> bool {
    let summary_at = match reports.admit(kind, template) {
        Admission::Write => return true,
        Admission::Count(summary_at) => summary_at,
    };
    if let Some(at) = summary_at {
        let executor = match reports.clock() {
            Clock::Boot => Executor::BackgroundThread,
            Clock::Tokio => Executor::of_clock(),
        };
        let reports = Arc::clone(reports);
        // If its runtime has ended, the summary is lost. A later window tells what was counted.
        let _ = executor.spawn(async move {
            reports.clock().sleep_until(at).await;
            reports.summarize(kind);
        });
    }
    false
}

/// The runtime that a client's background work belongs to.
#[derive(Debug, Clone)]
pub(crate) enum Executor {
    /// The background thread: independent of every runtime of the program.
    BackgroundThread,
    /// One runtime of the program, whose clock a test has paused.
    Runtime(Handle),
}

impl Executor {
    /// The runtime that drives the clock of the caller. Real time is driven by the background
    /// thread, which no caller can block.
    pub(crate) fn of_clock() -> Self {
        paused_runtime().map_or(Self::BackgroundThread, Self::Runtime)
    }

    /// What its timers are for.
    fn clock(&self) -> Clock {
        match self {
            Self::BackgroundThread => Clock::Boot,
            Self::Runtime(_) => Clock::Tokio,
        }
    }

    /// `None`: the background thread.
    pub(crate) fn runtime_id(&self) -> Option<runtime::Id> {
        match self {
            Self::BackgroundThread => None,
            Self::Runtime(handle) => Some(handle.id()),
        }
    }

    pub(crate) fn spawn(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), LockError> {
        match self {
            Self::BackgroundThread => background_thread::spawn(future),
            Self::Runtime(handle) => {
                drop(handle.spawn(future));
                Ok(())
            }
        }
    }

    /// The same for work that goes on when the background thread dies. A runtime of the program
    /// drops it at its end.
    pub(crate) fn spawn_lasting(&self, mut work: impl LastingWork) -> Result<(), LockError> {
        match self {
            Self::BackgroundThread => lasting_work::spawn(work),
            Self::Runtime(_) => self.spawn(async move { work.run().await }),
        }
    }

    /// Runs `work` here, and returns its outcome. The work is dropped if the caller goes away.
    /// `what` names the work in an error.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        what: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LockError> {
        let (mut reply, answer) = oneshot::channel();
        self.spawn(async move {
            let outcome = tokio::select! {
                biased;
                () = reply.closed() => return,
                outcome = work => outcome,
            };
            drop(reply.send(outcome));
        })?;
        // Not bound by the budget of the caller's task: it may block on this, and would never hear.
        let answer = OfProcess::new(process::id(), answer);
        unconstrained(answer).await.map_err(|_| stopped(what))
    }

    /// Resolves after `limit`, or when the timer's task has ended; `None`: at once. The timer runs
    /// here: neither a caller without timers nor one that is not polled prolongs it.
    pub(crate) fn alarm(
        &self,
        limit: Option<Duration>,
    ) -> Result<impl Future<Output = ()> + Send + Sync + use<>, LockError> {
        let (ring, rings) = oneshot::channel();
        if let Some(limit) = limit {
            let clock = self.clock();
            self.spawn_lasting(Timer { clock, moment: clock.now().plus(limit), ring })?;
        }
        let rings = OfProcess::new(process::id(), rings);
        Ok(async move { drop(unconstrained(rings).await) })
    }
}

/// Rings when it is dropped.
struct Timer {
    clock: Clock,
    moment: Moment,
    ring: oneshot::Sender<()>,
}

impl LastingWork for Timer {
    async fn run(&mut self) {
        tokio::select! {
            biased;
            // The caller has gone away.
            () = self.ring.closed() => {}
            () = self.clock.sleep_until(self.moment) => {}
        }
    }
}
