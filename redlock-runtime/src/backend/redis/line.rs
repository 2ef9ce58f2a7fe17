//! The line of those who wait for a lock, on one Redis server.

use std::time::Duration;

use tokio::time::Instant;

use super::exchange::{Call, exchange, unheard};
use super::line_reply;
use super::link::Loan;
use super::node::{RedisNode, counter_life};
use super::release::Release;
use super::script::{JOIN, ROTATE};
use super::source::Source;
use crate::backend::{Claim, Drawn, Fault, Found, Joined, Line, Reply, Rotated, Standing, Ticket};

/// The part of the time for a join that the connection for calls may take.
const CONNECTING_PART: u32 = 2;

impl<S: Source> Line for RedisNode<S> {
    fn ticket(&self, claim: &Claim) -> Ticket {
        self.core.notices.ticket(claim)
    }

    /// What is published in a cluster comes over its bus as well, and a script counts only those
    /// who listen at its own server.
    fn is_call_certain(&self) -> bool {
        S::LEADS_TO_ONE
    }

    fn join<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Joined> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let channel = self.core.notices.channel_within(within / CONNECTING_PART).await;
            let unheard = |loan| self.leave_behind(loan, claim);
            let left = end - Instant::now();
            let joined = self.stand(claim, reserve, channel, left, unheard).await;
            if joined.as_ref().is_err_and(|fault| fault.is_unknown) {
                self.core.notices.gave_up(claim);
            }
            joined
        })
    }

    fn look<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Joined> {
        Box::pin(self.stand(claim, reserve, "", within, unheard))
    }

    fn leave<'a>(&'a self, claim: &'a Claim, _reserve: u32, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            self.core.behind.over(&claim.owner);
            self.core.notices.gave_up(claim);
            self.core.let_go(&self.calls, Release::leaving(claim), within).await
        })
    }

    fn give_back<'a>(
        &'a self,
        claim: &'a Claim,
        drawn: Drawn,
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
        drawn: Drawn,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let channel = self.core.notices.channel_within(within / CONNECTING_PART).await;
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
            let call = Call { may_repeat: false, ..Call::new(&ROTATE, &keys, &args) };
            let unheard = |loan: Loan<S::Connection>| {
                self.leave_behind(loan.clone(), next);
                self.release_behind(loan, held);
            };
            let left = end - Instant::now();
            let rotated =
                exchange(&self.core.health, &self.calls, &call, left, line_reply::rotated, unheard)
                    .await;
            if rotated.as_ref().is_err_and(|failure| failure.is_unknown) {
                self.core.notices.gave_up(next);
            }
            let answer = rotated?;
            self.hear(answer.found.micros, answer.sent);
            Ok(match answer.found.found {
                Rotated::Passed { holder, standing } => {
                    self.core.hand_overs.begin(&held.key);
                    Rotated::Passed { holder, standing: self.told(standing) }
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
        unheard: impl Fn(Loan<S::Connection>),
    ) -> Result<Joined, Fault> {
        let keys = claim.key.with_helpers();
        let keys = keys.each_ref().map(String::as_str);
        let (expire, life) = (claim.expire.as_millis().to_string(), counter_life(claim));
        let reserve = reserve.to_string();
        let args = [claim.owner.as_str(), &expire, &life, &reserve, channel];
        let call = Call { may_repeat: channel.is_empty(), ..Call::new(&JOIN, &keys, &args) };
        let answer =
            exchange(&self.core.health, &self.calls, &call, within, line_reply::joined, unheard)
                .await?;
        self.hear(answer.found.micros, answer.sent);
        Ok(match answer.found.found {
            Joined::Waiting { holder, standing } => {
                Joined::Waiting { holder, standing: self.told(standing) }
            }
            Joined::Unknown => {
                if self.core.notices.is_heard() {
                    self.core.notices.doubt();
                }
                Joined::Unknown
            }
            granted @ Joined::Granted(_) => granted,
        })
    }

    /// Whoever gave a channel is told as long as we listen there.
    fn told(&self, standing: Standing) -> Standing {
        Standing { is_told: standing.is_told && self.core.notices.is_heard(), ..standing }
    }
}
