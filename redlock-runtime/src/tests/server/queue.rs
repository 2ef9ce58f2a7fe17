//! The queue of waiters on the server.

use std::time::Duration;

use super::{Server, Signals};
use crate::backend::{Claim, Enqueued, FifoQueue, Look, Reply, Rotated, Subscription, TokensUsed};
use crate::tests::simulation::line::Entry;
use crate::tests::simulation::node::{Answer, Command};

impl Server {
    /// Whether a connection for signals has still to be made.
    pub(in crate::tests) fn set_unconnected(&self, is_unconnected: bool) {
        let signals = if is_unconnected { Signals::Unconnected } else { Signals::Certain };
        self.state().signals = signals;
    }

    /// From now on a signal may come though the lock was given to another process.
    pub(in crate::tests) fn signals_uncertainly(&self) {
        self.state().signals = Signals::Uncertain;
    }
}

impl FifoQueue for Server {
    fn subscribe(&self, claim: &Claim) -> Subscription {
        self.subscriptions.issue(0, &claim.owner)
    }

    fn is_unconnected(&self) -> bool {
        self.state().signals == Signals::Unconnected
    }

    fn is_signal_certain(&self) -> bool {
        self.state().signals != Signals::Uncertain
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
