//! Releases that nobody awaits, over the connection of a caller's runtime.

use std::time::Duration;

use tokio::sync::oneshot;

use super::commands::{PartAnswer, exclusive};
use super::connection::{Batching, Loan, Source, diagnose};
use super::route::Route;
use crate::backend::{Departures, Found, Release, Reply};
use crate::clock::Moment;

impl<S: Source> Departures for Route<S> {
    fn next_departure(&self) -> Option<oneshot::Receiver<()>> {
        let batches = self.connection.inspect(Batching::batches).flatten()?;
        Some(batches.next_departure())
    }

    fn has_room(&self, may_join: bool) -> bool {
        self.connection.inspect(|connection| connection.has_room(may_join)).unwrap_or(false)
    }

    fn join<'a>(
        &'a self,
        release: Release<'a>,
        within: Duration,
        now: Moment,
    ) -> Option<Reply<'a, Found>> {
        let core = &self.core;
        let part = exclusive::release::part(release)?;
        let mut loan =
            self.connection.at_hand().filter(|_| !core.release_keys_denial.lasts(|| now))?;
        if self.connection.forget_if_ended(&mut loan, now) {
            core.health.broke();
            return None;
        }
        let joined = loan.connection.join(|| part)?;
        self.retire_owner(&release);
        Some(Box::pin(async move {
            let answer = joined.await;
            match self.heard_in_batch(&loan, answer) {
                Ok((found, was_cut)) => Ok(self.conclude_release(release, found, was_cut)),
                // Boxed: it is large, and seldom needed.
                Err(MayHaveRun(may_have_run)) => {
                    Box::pin(self.release_over(&release, within, may_have_run)).await
                }
            }
        }))
    }
}

/// A release as part of a batch was not answered as it should be. Has it perhaps been carried out?
struct MayHaveRun(bool);

impl<S: Source> Route<S> {
    /// What a release found as a part of a batch, and whether it was repeated.
    fn heard_in_batch(
        &self,
        loan: &Loan<S::Connection>,
        answer: PartAnswer,
    ) -> Result<((Found, bool), bool), MayHaveRun> {
        let (reply, was_cut) = match answer {
            PartAnswer::Replied { reply, was_cut } => (reply, was_cut),
            PartAnswer::Alone { was_cut } => return Err(MayHaveRun(was_cut)),
        };
        let value = reply.map_err(|error| {
            let why = diagnose(&self.core.name, &error);
            if why.broke() {
                self.core.health.broke();
            }
            if why.discard {
                self.connection.discard(loan);
            }
            MayHaveRun(was_cut || why.may_have_run())
        })?;
        let Some(found) = exclusive::release::decode(&value) else {
            // The next reply on this connection may be just as wrong.
            self.connection.discard(loan);
            return Err(MayHaveRun(true));
        };
        if loan.is_superseded() {
            return Err(MayHaveRun(true));
        }
        loan.heard();
        self.core.health.heard();
        self.core.release_keys_denial.allowed();
        Ok((found, was_cut))
    }
}

#[cfg(test)]
mod tests;
