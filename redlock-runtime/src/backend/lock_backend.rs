//! The contract of every backend: three commands, each ended by an answer or a fault.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::fifo_queue::FifoQueue;
use super::outcome::{Acquired, Fault, Found};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::owner::Owner;

/// The answer of a backend that is on its way.
pub(crate) type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// Work that ends with the backend.
pub(crate) type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Is called when a lock was let go of: anywhere, so it must not block.
pub(crate) type OnRelease = Arc<dyn Fn() + Send + Sync>;

/// Dropped, it ends the wait for a notice in this process.
#[derive(Debug, Default)]
pub(crate) struct HintRegistration {
    registrations: Vec<Box<dyn fmt::Debug + Send + Sync>>,
}

impl HintRegistration {
    pub(crate) fn new(registration: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { registrations: vec![Box::new(registration)] }
    }
}

impl FromIterator<Self> for HintRegistration {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        let registrations = all.into_iter().flat_map(|one| one.registrations);
        Self { registrations: registrations.collect() }
    }
}

/// One lease, as a backend sees it.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) key: LockKey,
    pub(crate) owner: Owner,
    pub(crate) expire: Duration,
}

/// One place that holds locks: a Redis server, this process, or N servers as one.
///
/// Every call ends within `within`, with an answer or with a [`Fault`]. A fault says whether the
/// command may have been carried out all the same; the caller never has to guess.
pub(crate) trait LockBackend: fmt::Debug + Send + Sync + 'static {
    /// Takes the lock when it is free. Idempotent per owner: an owner that holds the lock already
    /// is granted it again, with the same fencing token. When the outcome is unknown, the backend
    /// has already sent a release behind the command, on the same connection; while that one may
    /// still land, the owner is refused with a fault.
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired>;

    /// Lifts the fencing counter to at least `fencing_token` while the lock is still ours: how N
    /// nodes agree on a token.
    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found>;

    /// Renews the leases that are still ours, and says of each what it found; `None`: nobody knows.
    /// Never re-creates a lease that is over.
    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>>;

    /// Frees the lock when it is still ours.
    fn release<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found>;

    /// May a command be carried out after its call was dropped or answered, as a copy of it was on
    /// its way?
    fn has_late_commands(&self) -> bool {
        true
    }

    /// Is the backend reachable, and fit to hold locks?
    fn verify(&self, within: Duration) -> Reply<'_, ()>;

    /// Where the waiters of a lock stand in line. `None`: nobody is told anything here, waiters
    /// ask now and then.
    fn fifo_queue(&self) -> Option<&dyn FifoQueue> {
        None
    }

    /// Asks to be told when the lock of `claim` is let go of, by an owner that is used for nothing
    /// else: for waiters where there is no line. A hint, once, that may get lost or come in vain;
    /// what is asked for is forgotten after a minute at the latest. `None`: nobody is told here.
    fn request_hint<'a>(
        &'a self,
        _claim: &'a Claim,
        _told: OnRelease,
        _within: Duration,
    ) -> Option<Reply<'a, HintRegistration>> {
        None
    }

    /// Wants no notice any more.
    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        self.release(claim, within)
    }

    /// What has to go on in the background, on the background thread, for as long as the backend lives.
    /// `None`: nothing, or it was begun before.
    fn background_task(&self) -> Option<BackgroundTask> {
        None
    }

    /// The same place, reached over connections of the caller's runtime: quicker for calls that
    /// are awaited there, and gone when that runtime ends. `None`: there is no such way, or none
    /// yet.
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        None
    }
}
