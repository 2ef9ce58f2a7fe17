//! A process that is not always scheduled: it pauses, or ends without a word.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::plan::{NEVER, Tick, millis};
use super::world::World;

/// When a process does not run.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pauses: Vec<(Tick, Tick)>,
}

impl Schedule {
    pub(super) fn new(random: &mut Rng, pauses: u16, expire: Duration, calm_from: Tick) -> Self {
        let pauses = (0..pauses).map(|_| {
            let from = random.u64(..calm_from);
            let is_end = random.u8(..12) == 0;
            let until = if is_end { NEVER } else { from + random.u64(1..3 * millis(expire)) };
            (from, until)
        });
        let mut pauses: Vec<_> = pauses.collect();
        pauses.sort_unstable();
        Self { pauses }
    }

    /// When the process runs again, from `now` on; [`NEVER`]: it has ended.
    pub(super) fn runs_at(&self, now: Tick) -> Tick {
        // In order: the end of one pause may lie in the next.
        let pass = |at, (from, until): &(Tick, Tick)| {
            if (*from..*until).contains(&at) { *until } else { at }
        };
        self.pauses.iter().fold(now, pass)
    }

    /// Since when the process has been running, if it runs at `now`.
    pub(super) fn ran_since(&self, now: Tick) -> Tick {
        self.changes().filter(|at| *at <= now).max().unwrap_or_default()
    }

    /// When the process stops and goes on.
    pub(super) fn changes(&self) -> impl Iterator<Item = Tick> {
        self.pauses.iter().flat_map(|(from, until)| [*from, *until])
    }

    /// When the process ends; [`NEVER`]: not at all.
    pub(super) fn ends(&self) -> Tick {
        let end = self.pauses.iter().find(|(_, until)| *until == NEVER);
        end.map_or(NEVER, |(from, _)| *from)
    }

    /// For how long the process is kept from running, all in all.
    pub(super) fn lost_time(&self) -> Tick {
        self.pauses.iter().fold(0, |sum, (from, until)| sum.saturating_add(until - from))
    }
}

pin_project! {
    /// Polls `work` only while its process runs.
    ///
    /// The tasks of the engines are held up where they meet the world: in `wire`.
    pub(super) struct Scheduled<F> {
        #[pin]
        work: F,
        world: Arc<World>,
        process: usize,
        again: Option<Pin<Box<Sleep>>>,
    }
}

impl<F> Scheduled<F> {
    pub(super) fn new(world: Arc<World>, process: usize, work: F) -> Self {
        Self { work, world, process, again: None }
    }
}

impl<F: Future> Future for Scheduled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let now = this.world.now();
        match this.world.runs_at(*this.process, now) {
            NEVER => Poll::Pending,
            again if again > now => {
                let mut sleep = Box::pin(tokio::time::sleep_until(this.world.instant(again)));
                // Virtual time stands still in a poll: it cannot be over already.
                let _ = sleep.as_mut().poll(cx);
                *this.again = Some(sleep);
                Poll::Pending
            }
            _ => this.work.poll(cx),
        }
    }
}
