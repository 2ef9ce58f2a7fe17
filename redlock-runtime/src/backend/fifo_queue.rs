//! The contract of a backend that keeps the waiting processes of each lock in line, and hands a
//! lock that is released to the first of them.

use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc;

use super::lock_backend::{Claim, Reply};
use super::outcome::Found;
use crate::fencing::FencingToken;

/// How long a lock that was handed over waits to be claimed. What lasts longer needs a renewal.
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(1);

/// Fencing tokens that one owner value may use, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FencingTokens {
    pub(crate) first: FencingToken,
    pub(crate) last: FencingToken,
}

/// How far the fencing tokens of an owner value were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokensUsed {
    /// The last that was used.
    pub(crate) used: FencingToken,
    /// The last that it has. Where the counter shows another one, somebody has drawn since.
    pub(crate) reserved: FencingToken,
}

/// A place in line, as a backend sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// When the holder's lease ends; `None`: the key has no expiry.
    pub(crate) free_in: Option<Duration>,
    /// How many wait before this one.
    pub(crate) ahead: u32,
    /// Its turn will be told. Otherwise it has to look now and then.
    pub(crate) is_told: bool,
    /// The server's time, in microseconds. What is handed over after this answer has no fencing
    /// token below it.
    pub(crate) micros: u64,
}

/// The answer to somebody who joins the line, or looks after a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// The lock is theirs.
    Granted(FencingTokens),
    /// They are in line behind the holder, whose owner value this is.
    Waiting { holder: String, position: Position },
    /// The line does not know them: they were called and did not hear it, or the line was lost. The
    /// owner must not join again.
    Unknown,
}

/// The answer to a holder that would give way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rotated {
    /// Nobody else waits: the lease is full again. These fencing tokens are new.
    Kept(FencingTokens),
    /// The first in line has the lock now, and the next owner waits at the end.
    Passed { holder: String, position: Position },
    /// It was not theirs any more; nothing was done. Never [`Found::Ours`].
    Lost(Found),
}

/// What somebody in line is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueSignal {
    /// The lock was handed to them, for `lease` from a moment after they enqueued, or looked last.
    HandedOver { fencing_tokens: FencingTokens, lease: Duration },
    /// A call may have been missed: look.
    Disturbed,
}

/// Hears the calls for one owner of one lock. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Subscription {
    calls: mpsc::UnboundedReceiver<QueueSignal>,
    _registration: Box<dyn fmt::Debug + Send + Sync>,
}

impl Subscription {
    /// `registration` is dropped with the subscription.
    pub(crate) fn new(
        calls: mpsc::UnboundedReceiver<QueueSignal>,
        registration: impl fmt::Debug + Send + Sync + 'static,
    ) -> Self {
        Self { calls, _registration: Box::new(registration) }
    }

    /// The next call. Cancel safe.
    pub(crate) async fn called(&mut self) -> QueueSignal {
        match self.calls.recv().await {
            Some(call) => call,
            // Nobody will call any more; whoever waits here goes by the clock.
            None => std::future::pending().await,
        }
    }
}

/// Keeps waiting processes in line. Every call ends within `within`, as those of a
/// [`LockBackend`](super::lock_backend::LockBackend) do.
pub(crate) trait FifoQueue: fmt::Debug + Send + Sync {
    /// To be taken before its owner joins: a call may come before the answer.
    fn subscription(&self, claim: &Claim) -> Subscription;

    /// Is a lock handed over to everybody who hears a call? Otherwise a call may be heard that was
    /// counted as heard by nobody, so that another one has the lock.
    fn is_signal_certain(&self) -> bool {
        true
    }

    /// Takes the lock if it is free and nobody waits; otherwise the owner is put at the end of the
    /// line. An owner joins once. When the outcome is unknown, the backend has already sent a
    /// [`leave`](Self::leave) behind the command, on the same connection.
    fn join<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Enqueued>;

    /// Asks again for an owner that enqueued, with the same `reserve`. Never puts it in line anew.
    fn look<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Enqueued>;

    /// Leaves the line. Frees the lock, or passes it on, if it was handed over meanwhile.
    fn leave<'a>(&'a self, claim: &'a Claim, reserve: u32, within: Duration) -> Reply<'a, Found>;

    /// Frees the lock, or passes it on, and gives back the fencing tokens that were reserved and
    /// not used, unless somebody has drawn since.
    fn give_back<'a>(
        &'a self,
        claim: &'a Claim,
        drawn: TokensUsed,
        within: Duration,
    ) -> Reply<'a, Found>;

    /// Gives way: if others wait, the first of them has the lock, and `next` waits at the end of
    /// the line (take its subscription before). Otherwise `held` stays, with a full lease of the length
    /// of `next` and `reserve` fencing tokens behind those that were used. When the outcome is
    /// unknown, a leave of `next` and a release of `held` were sent behind.
    fn rotate<'a>(
        &'a self,
        held: &'a Claim,
        drawn: TokensUsed,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated>;
}
