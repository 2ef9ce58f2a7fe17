//! The queue of waiters on the server.

use std::time::Duration;

use super::Server;
use crate::backend::{Claim, Enqueued, FifoQueue, Look, Reply, Rotated, Subscription, TokensUsed};
use crate::tests::simulation::line::Entry;
use crate::tests::simulation::node::{Answer, Command};

impl Server {
    /// Whether a connection for signals has still to be made.
    pub(in crate::tests) fn is_without_signals(&self, is_unconnected: bool) {
        self.state().is_unconnected = is_unconnected;
    }

    /// From now on a signal may come though the lock was given to another process.
    pub(in crate::tests) fn signals_uncertainly(&self) {
        self.state().has_uncertain_signals = true;
    }
}

impl FifoQueue for Server {
    fn subscribe(&self, claim: &Claim) -> Subscription {
        self.subscriptions.issue(0, &claim.owner)
    }

    fn is_unconnected(&self) -> bool {
        self.state().is_unconnected
    }

    fn is_signal_certain(&self) -> bool {
        !self.state().has_uncertain_signals
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Enqueued> {
        let command = Command::Join(Entry::told(claim, reserve));
        self.send("join", claim, command, within, Answer::enqueued)
    }

    fn look<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        look: Look,
        within: Duration,
    ) -> Reply<'a, Enqueued> {
        self.state().looks.push(look);
        let command = Command::Look(Entry::told(claim, reserve), look);
        self.send("look", claim, command, within, Answer::enqueued)
    }

    fn rotate<'a>(
        &'a self,
        held: &'a Claim,
        drawn: TokensUsed,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated> {
        let next = Entry::told(next, reserve);
        let command = Command::Rotate { held: held.clone(), drawn, next };
        self.send("rotate", held, command, within, Answer::rotated)
    }
}
