//! The contract of every backend: five commands, each ended by an answer or a fault, and the
//! further abilities that a backend may have.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::claim::{Claim, Release};
use super::departures::Departures;
use super::downgrade::Downgrade;
use super::fifo_queue::FifoQueue;
use super::health_check::HealthCheck;
use super::outcome::{Acquired, Found, Reply};
use super::release_hints::ReleaseHints;
use super::several::{AcquireAll, ReleaseAll};
use crate::fencing::FencingToken;

/// One place that holds locks: a Redis server, this process, or N servers as one.
///
/// Every call ends within `within`, with an answer or with a [`Fault`](super::Fault). A fault says
/// whether the command may have been carried out after all; the caller never has to guess.
pub(crate) trait LockBackend: fmt::Debug + Send + Sync + 'static {
    /// Acquires the lock if it is free. Idempotent per owner: an owner that holds the lock already
    /// is granted it again, with a fencing token that is not below the one before. When the outcome
    /// is unknown, the backend has already sent a release after the command, on the same
    /// connection; while that release may still arrive, the owner is refused with a fault.
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired>;

    /// Renews the leases that the owners still hold, and says of each what it found; `None`:
    /// unknown. Never re-creates a lease that is over.
    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>>;

    /// Frees the lock if its owner still holds it, or hands it to the first process that waits. A
    /// lock that is to be retained stays taken: its owner value tells so from then on, so that no
    /// late command of its owner finds it.
    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found>;

    /// Raises the fencing counter of the lock to at least `fencing_token` if the owner still holds
    /// it: so N nodes, or the keys of one hold, agree on a token. The lease stays as it is.
    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found>;

    /// Is the backend reachable, and fit to hold locks?
    fn verify(&self, within: Duration) -> Reply<'_, ()>;

    /// The further abilities of the backend. There is no default, so that a backend that wraps
    /// another one cannot forget an ability of it.
    fn abilities(&self) -> Abilities<'_>;
}

/// The abilities of a backend besides the five commands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Abilities<'a> {
    /// A server keeps the waiting processes of each lock in a queue. `None`: waiters poll.
    pub(crate) fifo_queue: Option<&'a dyn FifoQueue>,
    /// The backend can send release hints to waiters that poll.
    pub(crate) release_hints: Option<&'a dyn ReleaseHints>,
    /// One command can acquire several locks.
    pub(crate) acquire_all: Option<&'a dyn AcquireAll>,
    /// One command can release several locks.
    pub(crate) release_all: Option<&'a dyn ReleaseAll>,
    /// The backend can be reached over connections of the caller's own runtime.
    pub(crate) local_connection: Option<&'a dyn LocalConnection>,
    /// The backend is such a connection, and can say when commands have left.
    pub(crate) departures: Option<&'a dyn Departures>,
    /// The backend needs a background task for as long as it lives.
    pub(crate) background_work: Option<&'a dyn BackgroundWork>,
    /// The backend can turn an exclusive lock into a read lock.
    pub(crate) downgrade: Option<&'a dyn Downgrade>,
    /// The backend can say which of its nodes answer.
    pub(crate) health: Option<&'a dyn HealthCheck>,
    /// The backend decides alone how many permits of a key are held. Several nodes cannot: three
    /// holders of two permits fit on five nodes.
    pub(crate) has_permits: bool,
    /// How many commands an acquire or a downgrade may send after the answers to the first one.
    pub(crate) further_steps: u32,
    /// Every command is carried out before its call returns, or never. Otherwise a copy of a
    /// command may still be in flight when its call was dropped or answered.
    pub(crate) is_synchronous: bool,
}

/// A backend that can be reached over connections of the caller's own runtime.
pub(crate) trait LocalConnection: Send + Sync {
    /// The same backend over a connection of this runtime: quicker for calls that are awaited here,
    /// and closed when the runtime ends. `None`: there is no such connection, or none yet.
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>>;
}

/// A task that ends with the backend.
pub(crate) type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A backend that needs a task of its own on the background thread.
pub(crate) trait BackgroundWork: Send + Sync {
    /// The task. `None`: there is none, or it runs already. One that has ended with its runtime is
    /// begun again.
    fn background_task(&self) -> Option<BackgroundTask>;
}
