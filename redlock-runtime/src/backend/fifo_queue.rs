//! The ability of a backend to keep the waiting processes of each lock in a queue, and to hand a
//! released lock to the first of them.

use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc;

use super::claim::Claim;
use super::outcome::{Fault, Found, Reply};
use super::tokens::{FencingTokens, TokensUsed};
use crate::error::NodeErrorKind;
use crate::fencing::FencingToken;

/// How long the lease of a lock is that was handed over. Its new holder claims a full lease in this
/// time. A body that is done before needs no claim.
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(1);

/// A position in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// When the holder's lease ends; `None`: the key has no expiry, or nobody holds the lock.
    pub(crate) free_in: Option<Duration>,
    /// How many processes wait before this one.
    pub(crate) ahead: u32,
    /// The server will signal the hand-over. Otherwise the waiter has to check from time to time.
    pub(crate) is_signalled: bool,
    /// The entry has no channel, as the client could not be signalled when it was made, and now it
    /// can: the waiter leaves the queue, and enters it anew.
    pub(crate) is_outdated: bool,
    /// A hand-over after this answer has no fencing token below this one.
    pub(crate) token_floor: FencingToken,
}

/// The answer to a process that enqueues, or checks its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// The owner has the lock.
    Granted(FencingTokens),
    /// The owner waits in the queue; `holder` is the owner value in the lock's key. `None`: nobody
    /// holds it, and somebody else comes first.
    Waiting { holder: Option<String>, position: Position },
    /// The queue has no such entry: the lock was handed over and the signal missed, or the queue
    /// was lost. The owner must not enqueue again.
    Unknown,
}

/// The answer to a holder that gives other processes their turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rotated {
    /// No other process waits: the lease is full again. These fencing tokens are new.
    Kept(FencingTokens),
    /// The first process of the queue has the lock now, and the next owner waits at the end.
    Passed { holder: Option<String>, position: Position },
    /// The lock had another owner or none; nothing was done. Never [`Found::Ours`].
    Lost(Found),
}

/// A signal to a waiter in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueSignal {
    /// The waiter has the lock, for `lease` from a moment after it enqueued, or checked last.
    HandedOver { fencing_tokens: FencingTokens, lease: Duration },
    /// A signal may have been missed: the waiter should check its entry.
    Disturbed,
}

/// Receives the signals for one owner of one lock. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    signals: mpsc::UnboundedReceiver<QueueSignal>,
    _registration: Box<dyn fmt::Debug + Send + Sync>,
}

impl Subscription {
    /// `registration` is dropped with the subscription.
    pub(crate) fn new(
        signals: mpsc::UnboundedReceiver<QueueSignal>,
        registration: impl fmt::Debug + Send + Sync + 'static,
    ) -> Self {
        Self { signals, _registration: Box::new(registration) }
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn signal(&mut self) -> QueueSignal {
        match self.signals.recv().await {
            Some(signal) => signal,
            // No further signal will come; the waiter checks by the clock.
            None => std::future::pending().await,
        }
    }
}

/// How an owner checks its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// How many were ahead of it at its last position: the search is quick if fewer are by now.
    pub(crate) ahead: u32,
    /// Entries right ahead of it whose processes are gone leave the queue. Not after a subscription
    /// broke: many break together, and those that are not back yet would lose their places.
    pub(crate) removes_dead: bool,
}

#[cfg(test)]
impl Look {
    pub(crate) fn by_clock(ahead: u32) -> Self {
        Self { ahead, removes_dead: true }
    }
}

/// Keeps waiting processes in a queue. Every call ends within `within`, like those of a
/// [`LockBackend`](super::LockBackend). A process leaves the queue with a
/// [`Release`](super::Release) that says so.
pub(crate) trait FifoQueue: fmt::Debug + Send + Sync {
    /// Subscribe before the owner enqueues: a signal may come before the answer.
    fn subscribe(&self, claim: &Claim) -> Subscription;

    /// Is the connection for signals not made yet? A caller that enqueues waits for it.
    fn is_unconnected(&self) -> bool;

    /// Does every signal prove that the lock was handed over? Otherwise the server may have counted
    /// no listener for a signal that was received, and given the lock to another process.
    fn is_signal_certain(&self) -> bool;

    /// Acquires the lock if it is free and no process waits; otherwise puts the owner at the end of
    /// the queue. An owner enqueues once. `reserve`: how many fencing tokens it gets with the lock,
    /// for callers of its process that have the lock after it without a command. When the outcome
    /// is unknown, the backend has already sent a release that also leaves the queue, after the
    /// command and on the same connection.
    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Enqueued>;

    /// Checks the entry of an owner that enqueued, with the same `reserve`. Never enqueues it anew.
    fn look<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        look: Look,
        within: Duration,
    ) -> Reply<'a, Enqueued>;

    /// Gives other processes their turn: if any wait, the first of them has the lock, and `next`
    /// waits at the end of the queue (subscribe for it before). Otherwise `held` stays, with a full
    /// lease of the length of `next`, and with `reserve` fencing tokens after those that were used.
    /// When the outcome is unknown, a release of `next` that also leaves the queue, and a release
    /// of `held`, were sent after it.
    fn rotate<'a>(
        &'a self,
        held: &'a Claim,
        tokens: TokensUsed,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated>;
}

/// Why a server does not let a client queue, although it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueDenial {
    /// The user of this client may not use the keys or commands of the queue.
    Forbidden,
    /// The server refuses the command for another reason.
    Refused,
}

impl QueueDenial {
    /// The denial in a fault, if it is one.
    pub(crate) fn of(fault: &Fault) -> Option<Self> {
        let is = |kind| fault.nodes.iter().any(|node| node.kind() == kind);
        if is(NodeErrorKind::NoPermission) {
            Some(Self::Forbidden)
        } else {
            is(NodeErrorKind::Refused).then_some(Self::Refused)
        }
    }
}
