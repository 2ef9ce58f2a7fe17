//! Lets go of a lock, or of a place in its line.

use std::time::Duration;

use tokio::time::Instant;

use super::reply;
use super::script::RELEASE;
use super::send_script::{ScriptCall, on_abandoned, send_script};
use crate::backend::redis::connection::{Loan, SharedConnection, Source};
use crate::backend::redis::health::{CLOCK, IdentifiedSource};
use crate::backend::redis::{Core, counter_life};
use crate::backend::{Claim, Fault, Found, TokensUsed};
use crate::error::{NodeError, NodeErrorKind};

/// What is let go of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release<'a> {
    claim: &'a Claim,
    /// Where fencing tokens were reserved that nobody used.
    drawn: Option<TokensUsed>,
    is_leaving: bool,
}

impl<'a> Release<'a> {
    /// The lock.
    pub(crate) fn of(claim: &'a Claim) -> Self {
        Self { claim, drawn: None, is_leaving: false }
    }

    /// The lock, and the fencing tokens that were reserved and not used.
    pub(crate) fn behind(claim: &'a Claim, drawn: TokensUsed) -> Self {
        Self { drawn: Some(drawn), ..Self::of(claim) }
    }

    /// The place in line, and the lock if it was handed over meanwhile.
    pub(crate) fn leaving(claim: &'a Claim) -> Self {
        Self { is_leaving: true, ..Self::of(claim) }
    }

    /// Sends it on this connection and no other. Whether it was answered.
    pub(crate) async fn on<S: Source>(&self, loan: &mut Loan<S::Connection>) -> bool {
        self.call(false).invocation.run(&mut loan.connection).await.is_ok()
    }

    fn call(&self, is_lineless: bool) -> ScriptCall {
        let Self { claim, drawn, is_leaving } = *self;
        let keys = claim.key.with_helpers();
        let keys = keys.each_ref().map(String::as_str);
        let leave = if is_leaving { "leave" } else { "" };
        let [used, reserved, life] = match drawn {
            Some(TokensUsed { used, reserved }) => {
                [used.to_string(), reserved.to_string(), counter_life(claim)]
            }
            None => Default::default(),
        };
        let args = [claim.owner.as_str(), leave, &used, &reserved, &life];
        // What is empty at the end says nothing. Each word costs the server time.
        let said = args.iter().rposition(|arg| !arg.is_empty()).map_or(0, |last| last + 1);
        ScriptCall::new(&RELEASE, if is_lineless { &keys[..1] } else { &keys }, &args[..said])
    }
}

impl<S: Source> Core<S> {
    pub(crate) async fn let_go(
        &self,
        calls: &SharedConnection<IdentifiedSource<S>>,
        release: Release<'_>,
        within: Duration,
    ) -> Result<Found, Fault> {
        let end = Instant::now() + within;
        let is_lineless = self.queue_denial.lasts(|| CLOCK.now());
        let ask = async |call: &ScriptCall, within| {
            send_script(&self.health, calls, call, within, reply::released, on_abandoned).await
        };
        let answer = match ask(&release.call(is_lineless), within).await {
            Err(failure) if !is_lineless && is_out_of_reach::<S>(&failure.error) => {
                let call = release.call(true);
                let mut alone = Box::pin(ask(&call, end - Instant::now())).await?;
                alone.was_cut |= failure.is_unknown;
                // A slot that moves comes to rest again; an ACL mostly stays as it is.
                if failure.error.kind() == NodeErrorKind::NoPermission {
                    self.queue_denial.denied(CLOCK.now());
                }
                alone
            }
            answer => {
                let answer = answer?;
                if !is_lineless {
                    self.queue_denial.allowed();
                }
                answer
            }
        };
        let (found, was_handed_over) = answer.found;
        let found = match found {
            // The try that broke off may have freed it, or handed it over.
            Found::Gone | Found::Stolen if answer.was_cut => Found::Unclear,
            found => found,
        };
        if was_handed_over || found == Found::Unclear {
            self.handover_watchdog.begin(&release.claim.key);
        }
        Ok(found)
    }
}

/// May the lock be let go of where its line cannot be?
fn is_out_of_reach<S: Source>(error: &NodeError) -> bool {
    match error.kind() {
        // Not the command, but one of its keys.
        NodeErrorKind::NoPermission => error.message().contains("key"),
        // A script with several keys, while some of them have moved elsewhere.
        NodeErrorKind::Cluster => !S::LEADS_TO_ONE,
        _ => false,
    }
}
