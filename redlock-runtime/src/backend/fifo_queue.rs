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

/// How long a lock that was handed over waits for its new holder to claim it: to ask for a full
/// lease. A body that is done before that needs no claim.
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(1);

/// A position in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// When the holder's lease ends; `None`: the key has no expiry.
    pub(crate) free_in: Option<Duration>,
    /// How many processes wait before this one.
    pub(crate) ahead: u32,
    /// The hand-over will be signalled. Otherwise the waiter has to look now and then.
    pub(crate) is_told: bool,
    /// A hand-over after this answer has no fencing token below this one.
    pub(crate) token_floor: FencingToken,
}

/// The answer to a process that enqueues, or looks after its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// It has the lock.
    Granted(FencingTokens),
    /// It waits in the queue; the lock has this owner value.
    Waiting { holder: String, position: Position },
    /// The queue has no such entry: the lock was handed over and the signal missed, or the queue
    /// was lost. The owner must not enqueue again.
    Unknown,
}

/// The answer to a holder that gives others their turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rotated {
    /// Nobody else waits: the lease is full again. These fencing tokens are new.
    Kept(FencingTokens),
    /// The first process of the queue has the lock now, and the next owner waits at the end.
    Passed { holder: String, position: Position },
    /// The lock had another owner or none; nothing was done. Never [`Found::Ours`].
    Lost(Found),
}

/// What a waiter in the queue is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueSignal {
    /// It has the lock, for `lease` from a moment after it enqueued, or looked last.
    HandedOver { fencing_tokens: FencingTokens, lease: Duration },
    /// A signal may have been missed: it should look.
    Disturbed,
}

/// Receives the signals for one owner of one lock. Dropping it ends that.
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
            // No signal will come any more; the waiter goes by the clock.
            None => std::future::pending().await,
        }
    }
}

/// Keeps waiting processes in a queue. Every call ends within `within`, as those of a
/// [`LockBackend`](super::LockBackend) do. A process leaves the queue with a
/// [`Release`](super::Release) that says so.
pub(crate) trait FifoQueue: fmt::Debug + Send + Sync {
    /// To be taken before its owner enqueues: a signal may come before the answer.
    fn subscribe(&self, claim: &Claim) -> Subscription;

    /// Does every signal prove that the lock was handed over? Otherwise a signal may be heard that
    /// the server counted as heard by nobody, so that another process has the lock.
    fn is_signal_certain(&self) -> bool;

    /// Takes the lock if it is free and nobody waits; otherwise puts the owner at the end of the
    /// queue. An owner enqueues once. When the outcome is unknown, the backend has already sent a
    /// leaving release after the command, on the same connection.
    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Enqueued>;

    /// Asks again for an owner that enqueued, with the same `reserve`. Never enqueues it anew.
    fn look<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Enqueued>;

    /// Gives others their turn: if any wait, the first of them has the lock, and `next` waits at
    /// the end of the queue (subscribe for it before). Otherwise `held` stays, with a full lease of
    /// the length of `next`, and with `reserve` fencing tokens after those that were used. When the
    /// outcome is unknown, a leaving release of `next` and a release of `held` were sent after it.
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
