//! Renews many leases at once, over the connection for renewals.

use std::time::Duration;

use deadpool_redis::redis::Value;

use super::commands::{
    Deadline, Failure, ScriptCall, exclusive, no_undo, open_connection, send_script, shared,
};
use super::connection::{MinReplicas, SharedConnection, Source};
use super::route::{Route, is_about_its_keys};
use crate::backend::{Claim, Fault, Found};
use crate::kind::Kind;
use crate::shield::tell;
use crate::together::together;

impl<S: Source> Route<S> {
    /// Renews leases with one call, of a script for exclusive or for shared kinds.
    pub(super) async fn renew_by(
        &self,
        call: ScriptCall,
        leases: usize,
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Failure> {
        // The time for replicas is part of the time for the answer.
        let core = &self.core;
        let replicas = core
            .min_replicas()
            .map(|replicas| MinReplicas { within: replicas.within.min(within / 2), ..replicas });
        let call = ScriptCall { replicas, ..call };
        let decode = |value: &Value| exclusive::renew::decode(value, leases);
        let deadline = Deadline::after(within);
        let connection = self.connection_for_renewals(&deadline).await;
        let made_at = connection.made_at();
        let mut answer =
            send_script(&core.health, connection, &call, &deadline, decode, no_undo).await?;
        let mut is_loss_believed = true;
        let is_lost = answer.reply.found.iter().any(|found| found.loss().is_some());
        // After a failover, commands may go to another server than renewals. That a lock is lost is
        // not believed of an older connection before a new one says so, too. If it cannot be made
        // in time, the next renewal finds it.
        if is_lost && S::LEADS_TO_ONE && made_at < core.source.last_made() {
            let (next, latest) = (&core.next_renewals, core.source.last_made());
            next.discard_older(latest);
            match send_script(&core.health, next, &call, &deadline, decode, no_undo).await {
                // Not over one that was under way before the latest. Another renewal may have
                // replaced it since.
                Ok(newer) if newer.begun >= latest => {
                    core.renewals.adopt(next);
                    answer = newer;
                }
                _ => is_loss_believed = false,
            }
        }
        core.heard_time(answer.reply.micros, answer.sent);
        let shortage = self.shortage(replicas, answer.confirmed);
        if let Some((error, _)) = &shortage {
            tell!(debug, %error, "renewals were not replicated, they are tried again");
        }
        // A renewal that a failover may forget must not be relied on.
        let relied_on = |found: Found| match found.loss() {
            Some(_) => is_loss_believed.then_some(found),
            None => (shortage.is_none() || found != Found::Ours).then_some(found),
        };
        Ok(answer.reply.found.into_iter().map(relied_on).collect())
    }

    /// The connection for renewals. Where it cannot be made in half of the time, as on a server
    /// without room for another one, that of the commands, if there is one: no lease may be lost
    /// for want of a second connection.
    async fn connection_for_renewals(&self, deadline: &Deadline) -> &SharedConnection<S> {
        let core = &self.core;
        if !self.connection.is_connected() {
            return &core.renewals;
        }
        let half = Deadline::after(deadline.left() / 2);
        match open_connection(&core.health, &core.renewals, &half).await {
            Ok(_) => &core.renewals,
            Err(Failure { error, .. }) => {
                tell!(debug, %error, "renewals share the connection of the commands");
                &self.connection
            }
        }
    }

    /// Renews all of them with one call, or two.
    pub(super) async fn renew_together(
        &self,
        claims: &[Claim],
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Failure> {
        if claims.iter().all(|claim| claim.kind == Kind::Exclusive) {
            let call = exclusive::renew::call(claims);
            let found = self.renew_by(call, claims.len(), within).await?;
            self.note_together(claims.iter());
            return Ok(found);
        }
        Box::pin(self.renew_mixed(claims, within)).await
    }

    /// Renews each of them with a call of its own, all at once: there is time for two round trips,
    /// not for a search among a hundred leases. If at least one of the calls is answered, a lease
    /// whose call failed counts as not answered; if all fail, so does the whole renewal.
    pub(super) async fn renew_each(
        &self,
        claims: &[Claim],
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Fault> {
        let calls = claims.chunks(1).map(|claim| Box::pin(self.renew_together(claim, within)));
        let answers = together(calls.collect()).await;
        let is_any = answers.iter().any(Result::is_ok);
        let each = answers.into_iter().map(|answer| match answer.map_err(Fault::from) {
            Ok(found) => Ok(found.first().copied().flatten()),
            Err(fault) if is_any => {
                let nodes = fault.nodes_text();
                tell!(debug, nodes, "a part of the leases was not renewed, it is tried again");
                Ok(None)
            }
            Err(fault) => Err(fault),
        });
        each.collect()
    }

    /// Leases of exclusive and of shared kinds have a script each. Both calls leave at once.
    async fn renew_mixed(
        &self,
        claims: &[Claim],
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Failure> {
        let (shared, exclusive): (Vec<&Claim>, Vec<&Claim>) =
            claims.iter().partition(|claim| claim.kind.is_shared());
        let (shared, exclusive) = tokio::join!(
            self.renew_by(shared::renew::call(&shared), shared.len(), within),
            async {
                if exclusive.is_empty() {
                    return Ok(Vec::new());
                }
                let call = exclusive::renew::call(&exclusive);
                self.renew_by(call, exclusive.len(), within).await
            }
        );
        // One of two answers is better than none: the leases of the other one are unknown.
        let (mut shared, mut exclusive) = match (shared, exclusive) {
            (Err(failure), Err(_)) => return Err(failure),
            // The caller renews each lease by itself, which finds those that are refused.
            (Err(failure), _) | (_, Err(failure)) if is_about_its_keys(&failure.error) => {
                return Err(failure);
            }
            (Err(failure), Ok(found)) if found.is_empty() => return Err(failure),
            (shared, exclusive) => {
                let found = |answer: Result<Vec<_>, _>| answer.unwrap_or_default().into_iter();
                (found(shared), found(exclusive))
            }
        };
        let next = |claim: &Claim| {
            let found = if claim.kind.is_shared() { shared.next() } else { exclusive.next() };
            found.flatten()
        };
        Ok(claims.iter().map(next).collect())
    }
}

#[cfg(test)]
mod tests;
