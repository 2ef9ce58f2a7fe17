//! Whether a server can hold locks, when a client starts.

use std::time::Duration;

use tokio::time::Instant;

use super::commands::{Failure, is_passing, no_connection, no_reply};
use super::connection::{Source, diagnose};
use super::health::startup_check;
use super::route::Route;
use crate::backend::Fault;

impl<S: Source> Route<S> {
    /// Fails if the server cannot be reached, or cannot hold locks.
    pub(super) async fn check_server(&self, within: Duration) -> Result<(), Fault> {
        let end = Instant::now() + within;
        let verdict = tokio::time::timeout_at(end, async {
            // Both connect before their first use: the renewal of a short lease has no time to
            // connect.
            let (loan, renewals) =
                tokio::join!(self.connection.borrow(), self.core.renewals.borrow());
            let mut loan = loan?;
            let core = &self.core;
            // With a restart guard, each connection identifies the server itself.
            let met = |info: &str| {
                if let Some(replicas) = core.min_replicas() {
                    startup_check::count_replicas(&core.name, info, replicas.needed);
                }
                if !core.identity.is_asking() {
                    core.health.meet(info);
                }
            };
            let verdict =
                startup_check::probe::<S>(&core.name, loan.connection.inner(), &met).await;
            renewals?;
            if verdict.is_err() {
                self.connection.discard(&loan);
            }
            verdict
        });
        let failure = match verdict.await {
            Ok(Ok(None)) => {
                self.core.health.heard();
                return Ok(());
            }
            Ok(Ok(Some(unfit))) => Failure::not_run(unfit).final_if(true),
            Ok(Err(error)) => {
                let why = diagnose(&self.core.name, &error);
                let is_final = why.is_final && !is_passing::<S>(why.error.kind());
                Failure::not_run(why.error).final_if(is_final)
            }
            Err(_) => {
                if self.connection.is_connected() {
                    no_reply(&self.core.name, "no reply", within, false)
                } else {
                    no_connection(&self.core.name, within)
                }
            }
        };
        self.core.health.failed_at_startup(&failure.error);
        Err(failure.into())
    }
}
