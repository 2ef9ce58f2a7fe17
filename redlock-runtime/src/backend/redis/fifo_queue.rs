//! The line of those who wait for a lock, on one Redis server.

use std::time::Duration;

use tokio::time::Instant;

use super::commands::{ENQUEUE, ROTATE, Release, ScriptCall, on_abandoned, send_script};
use super::connection::{Loan, Source};
use super::node::{RedisNode, counter_life};
use crate::backend::redis::commands::queue_reply;
use crate::backend::{
    Claim, Enqueued, Fault, FifoQueue, Found, Position, Reply, Rotated, Subscription, TokensUsed,
};

/// The part of the time for a join that the connection for calls may take.
const CONNECTING_PART: u32 = 2;

impl<S: Source> FifoQueue for RedisNode<S> {
    fn subscription(&self, claim: &Claim) -> Subscription {
        self.core.registry.subscription(claim)
    }

    /// What is published in a cluster comes over its bus as well, and a script counts only those
    /// who listen at its own server.
    fn is_signal_certain(&self) -> bool {
        S::LEADS_TO_ONE
    }

    fn join<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Enqueued> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let channel = self.core.registry.channel_within(within / CONNECTING_PART).await;
            let on_abandoned = |loan| self.leave_behind(loan, claim);
            let left = end - Instant::now();
            let enqueued = self.stand(claim, reserve, channel, left, on_abandoned).await;
            if enqueued.as_ref().is_err_and(|fault| fault.is_unknown) {
                self.core.registry.gave_up(claim);
            }
            enqueued
        })
    }

    fn look<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Enqueued> {
        Box::pin(self.stand(claim, reserve, "", within, on_abandoned))
    }

    fn leave<'a>(&'a self, claim: &'a Claim, _reserve: u32, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            self.core.behind.over(&claim.owner);
            self.core.registry.gave_up(claim);
            self.core.let_go(&self.calls, Release::leaving(claim), within).await
        })
    }

    fn give_back<'a>(
        &'a self,
        claim: &'a Claim,
        drawn: TokensUsed,
        within: Duration,
    ) -> Reply<'a, Found> {
        Box::pin(async move {
            self.core.behind.over(&claim.owner);
            self.core.let_go(&self.calls, Release::behind(claim, drawn), within).await
        })
    }

    fn rotate<'a>(
        &'a self,
        held: &'a Claim,
        drawn: TokensUsed,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let channel = self.core.registry.channel_within(within / CONNECTING_PART).await;
            let keys = held.key.with_helpers();
            let keys = keys.each_ref().map(String::as_str);
            let (used, reserved) = (drawn.used.to_string(), drawn.reserved.to_string());
            let reserve = reserve.to_string();
            let (expire, life) = (next.expire.as_millis().to_string(), counter_life(next));
            let args = [
                held.owner.as_str(),
                &used,
                &reserved,
                next.owner.as_str(),
                &expire,
                &life,
                &reserve,
                channel,
            ];
            let call = ScriptCall { may_repeat: false, ..ScriptCall::new(&ROTATE, &keys, &args) };
            let on_abandoned = |loan: Loan<S::Connection>| {
                self.leave_behind(loan.clone(), next);
                self.release_behind(loan, held);
            };
            let left = end - Instant::now();
            let rotated = send_script(
                &self.core.health,
                &self.calls,
                &call,
                left,
                queue_reply::rotated,
                on_abandoned,
            )
            .await;
            if rotated.as_ref().is_err_and(|failure| failure.is_unknown) {
                self.core.registry.gave_up(next);
            }
            let answer = rotated?;
            self.hear(answer.found.micros, answer.sent);
            Ok(match answer.found.found {
                Rotated::Passed { holder, position } => {
                    self.core.handover_watchdog.begin(&held.key);
                    Rotated::Passed { holder, position: self.told(position) }
                }
                rotated => rotated,
            })
        })
    }
}

impl<S: Source> RedisNode<S> {
    /// Joins the line to be told on `channel`, or looks after the place in it if that is empty.
    async fn stand(
        &self,
        claim: &Claim,
        reserve: u32,
        channel: &str,
        within: Duration,
        on_abandoned: impl Fn(Loan<S::Connection>),
    ) -> Result<Enqueued, Fault> {
        let keys = claim.key.with_helpers();
        let keys = keys.each_ref().map(String::as_str);
        let (expire, life) = (claim.expire.as_millis().to_string(), counter_life(claim));
        let reserve = reserve.to_string();
        let args = [claim.owner.as_str(), &expire, &life, &reserve, channel];
        let call = ScriptCall {
            may_repeat: channel.is_empty(),
            ..ScriptCall::new(&ENQUEUE, &keys, &args)
        };
        let answer = send_script(
            &self.core.health,
            &self.calls,
            &call,
            within,
            queue_reply::enqueued,
            on_abandoned,
        )
        .await?;
        self.hear(answer.found.micros, answer.sent);
        Ok(match answer.found.found {
            Enqueued::Waiting { holder, position } => {
                Enqueued::Waiting { holder, position: self.told(position) }
            }
            Enqueued::Unknown => {
                if self.core.registry.is_heard() {
                    self.core.registry.doubt();
                }
                Enqueued::Unknown
            }
            granted @ Enqueued::Granted(_) => granted,
        })
    }

    /// Whoever gave a channel is told as long as we listen there.
    fn told(&self, position: Position) -> Position {
        Position { is_told: position.is_told && self.core.registry.is_heard(), ..position }
    }
}
