//! The queue of the processes that wait for a lock, on one Redis server.

use std::time::Duration;

use super::commands::{Deadline, ScriptCall, by_kind, exclusive, no_undo, send_script};
use super::connection::{Loan, Source};
use super::route::Route;
use crate::backend::{
    CLAIM_WINDOW, Claim, Enqueued, Fault, FifoQueue, Look, Position, Reply, Rotated, Subscription,
    TokensUsed,
};
use crate::kind::group_of;
use crate::owner::Owner;

impl<S: Source> FifoQueue for Route<S> {
    fn subscribe(&self, claim: &Claim) -> Subscription {
        self.core.registry.subscribe(claim)
    }

    fn is_unconnected(&self) -> bool {
        self.core.registry.is_unconnected()
    }

    /// A message in a cluster reaches the subscribers of every server, and a script counts only
    /// those of its own server.
    fn is_signal_certain(&self) -> bool {
        S::LEADS_TO_ONE
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Enqueued> {
        Box::pin(async move {
            let registry = &self.core.registry;
            let channel = registry.channel_within(within).await;
            let call = by_kind::enqueue(claim, reserve, channel);
            let undo = |loan| self.core.undo(self.home.as_ref(), loan, claim, true);
            // The connection for signals was waited for beside that: a server that is far has not
            // half of the time only.
            let enqueued = send(self, &call, within, undo).await;
            if enqueued.as_ref().is_err_and(|fault| fault.is_unknown) {
                registry.gave_up(claim);
            }
            enqueued
        })
    }

    fn look<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        look: Look,
        within: Duration,
    ) -> Reply<'a, Enqueued> {
        Box::pin(async move {
            let call = by_kind::look(claim, reserve, look);
            send(self, &call, within, no_undo).await
        })
    }

    fn rotate<'a>(
        &'a self,
        held: &'a Claim,
        tokens: TokensUsed,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated> {
        Box::pin(async move {
            let (core, home) = (&self.core, self.home.as_ref());
            // Nobody uses the lock meanwhile.
            let channel = core.registry.channel_while_held().await;
            let deadline = Deadline::after(within);
            let call = exclusive::rotate::call(held, tokens, next, reserve, channel);
            let undo = |loan: Loan<S::Connection>| {
                core.undo(home, loan.clone(), next, true);
                core.undo(home, loan, held, false);
            };
            let decode = exclusive::rotate::decode;
            let rotated =
                send_script(&core.health, &self.connection, &call, &deadline, decode, undo).await;
            if rotated.as_ref().is_err_and(|failure| failure.is_unknown) {
                core.registry.gave_up(next);
            }
            let answer = rotated?;
            if !matches!(answer.reply.found, Rotated::Kept(_)) {
                core.registry.note_served(held);
            }
            core.heard_time(answer.reply.micros, answer.sent);
            Ok(match answer.reply.found {
                Rotated::Passed { holder, position } => {
                    core.handovers.look_again(&held.key, &held.owner, CLAIM_WINDOW);
                    let position = with_signals(self, holder.as_deref(), position);
                    Rotated::Passed { holder, position }
                }
                rotated => rotated,
            })
        })
    }
}

/// Enqueues, or checks the entry.
async fn send<S: Source>(
    route: &Route<S>,
    call: &ScriptCall,
    within: Duration,
    undo: impl Fn(Loan<S::Connection>),
) -> Result<Enqueued, Fault> {
    let (core, decode) = (&route.core, exclusive::enqueue::decode);
    let deadline = Deadline::after(within);
    let answer =
        send_script(&core.health, &route.connection, call, &deadline, decode, undo).await?;
    core.heard_time(answer.reply.micros, answer.sent);
    Ok(match answer.reply.found {
        Enqueued::Waiting { holder, position } => {
            let position = with_signals(route, holder.as_deref(), position);
            Enqueued::Waiting { holder, position }
        }
        Enqueued::Unknown => {
            if core.registry.is_heard() {
                core.registry.doubt();
            }
            Enqueued::Unknown
        }
        granted @ Enqueued::Granted(_) => granted,
    })
}

/// A waiter is signalled as long as this client listens, and if the holder is a client of this
/// library: other clients send no signal when they release.
fn with_signals<S: Source>(route: &Route<S>, holder: Option<&str>, position: Position) -> Position {
    let is_ours =
        holder.is_some_and(|holder| Owner::is_likely(holder) || group_of(holder).is_some());
    let (has_channel, is_heard) = (position.is_signalled, route.core.registry.is_heard());
    Position {
        is_signalled: has_channel && is_heard && is_ours,
        is_outdated: is_heard && !has_channel,
        ..position
    }
}
