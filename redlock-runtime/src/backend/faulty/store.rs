//! The handle of a test: it plans faults, and meddles with what stands in the store.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::node::FaultyNode;
use super::planned_fault::PlannedFault;
use super::script::{Command, FaultScript};
use crate::backend::{Cause, MemorySince, MemoryStore};
use crate::clock::Clock;
use crate::owner::Owner;

/// The lease of an owner that took a lock over: the default of `expire`.
const STOLEN_FOR: Duration = Duration::from_secs(30);

/// A store in memory that plays the part of a Redis server, with faults by script: replies that are
/// lost or late, errors, a server that is down, locks that are stolen and leases that end.
///
/// It is a [`MemoryStore`] and has its methods. Cheap to clone; clones are one server. Clients of
/// one store, from [`client`](Self::client) or
/// [`RedlockBuilder::faulty_store`](crate::RedlockBuilder::faulty_store), behave as processes on
/// one Redis. Keys stand in it as in Redis, with the prefix of the client: `lock:stock-42`.
///
/// What the library makes of a fault is what it makes of the same fault of a Redis server: a reply
/// that is lost leaves the outcome unknown, and what may have been taken is given back.
///
/// Callers without tokio, and runtimes without timers, are served in real time, by the background
/// thread. On a clock that the test has paused, nothing takes real time. As [`MemoryStore`] says, a
/// lock that stands on one paused clock is refused on another: each test makes a store of its own.
///
/// ```
/// use redlock::testing::{Command, FaultyStore};
/// use redlock::{LockError, NodeErrorKind, redis_lock};
///
/// #[redis_lock(key = "billing-<customer>", wait = "3s")]
/// async fn bill(customer: u32) -> Result<(), LockError> {
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), LockError> {
/// let store = FaultyStore::new();
/// let redlock = store.client().await?;
///
/// store.next(Command::Acquire).lose_reply();
/// redlock.scope(bill(7)).await?; // asks again
///
/// store.every(Command::Acquire).refuse(NodeErrorKind::ReadOnly);
/// assert!(redlock.scope(bill(7)).await.unwrap_err().is_unavailable());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FaultyStore {
    node: Arc<FaultyNode>,
}

impl FaultyStore {
    /// An empty store, whose name in errors is `redis://test`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::testing::FaultyStore::new().client().await?;
    /// redlock.lock("stock-42").acquire().await?.release().await?;
    /// # Ok(()) }
    /// ```
    #[expect(clippy::new_without_default, reason = "a clone is the same store, a default another")]
    pub fn new() -> Self {
        Self::named("redis://test")
    }

    /// `N` empty stores for
    /// [`RedlockBuilder::faulty_stores`](crate::RedlockBuilder::faulty_stores): independent
    /// masters, whose names in errors are `redis://test-1`, `redis://test-2` and so on.
    ///
    /// ```
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let [a, b, c] = FaultyStore::masters();
    /// let redlock = redlock::Redlock::builder().faulty_stores([&a, &b, &c]).build().await?;
    /// b.down();
    /// assert!(redlock.lock("stock-42").acquire().await.is_ok());
    /// # Ok(()) }
    /// ```
    pub fn masters<const N: usize>() -> [Self; N] {
        std::array::from_fn(|index| Self::named(&format!("redis://test-{}", index + 1)))
    }

    fn named(name: &str) -> Self {
        let node = FaultyNode::new(name);
        node.state().gives_hints = true;
        let store = Self { node };
        store.begin(Cause::Started);
        store
    }

    /// Plans a fault for the next command of this kind that has none yet. Commands of one kind meet
    /// the faults in the order in which they were planned; those for [`Command::Any`] come after
    /// those for the kind.
    ///
    /// ```
    /// use redlock::testing::{Command, FaultyStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// store.next(Command::Acquire).lose_request();
    /// store.next(Command::Acquire).lose_reply();
    /// let guard = redlock.lock("stock-42").acquire().await?; // the third attempt
    /// assert!(guard.waited() >= std::time::Duration::from_secs(2)); // two reply timeouts
    /// # Ok(()) }
    /// ```
    pub fn next(&self, command: Command) -> PlannedFault<'_> {
        PlannedFault::new(&self.node, command, false)
    }

    /// Plans a fault for all commands of this kind, from now until [`heal`](Self::heal). A fault
    /// of [`next`](Self::next) comes before it.
    ///
    /// ```
    /// use redlock::testing::{Command, FaultyStore};
    /// use redlock::{LostReason, NodeErrorKind};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// store.every(Command::Renew).refuse(NodeErrorKind::CannotPersist);
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.lost().await, LostReason::Unreachable); // the disk of the server is full
    /// # Ok(()) }
    /// ```
    pub fn every(&self, command: Command) -> PlannedFault<'_> {
        PlannedFault::new(&self.node, command, true)
    }

    /// The server is down from now on: no connection can be made. It keeps its locks, whose leases
    /// run on.
    ///
    /// ```
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// let redlock = store.client().await?;
    /// store.down();
    /// let error = redlock.lock("stock-42").acquire().await.unwrap_err();
    /// assert!(error.is_unavailable()); // after the default `wait` of 5 s
    /// # Ok(()) }
    /// ```
    pub fn down(&self) {
        self.script(|script| script.set_down(true));
    }

    /// The server can be reached again. Faults that were planned stay.
    ///
    /// ```
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// let redlock = store.client().await?;
    /// store.down();
    /// assert!(redlock.lock("stock-42").try_acquire().await.is_err());
    /// store.up();
    /// assert!(redlock.lock("stock-42").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn up(&self) {
        self.script(|script| script.set_down(false));
    }

    /// Ends and forgets all faults: the server is up, and answers.
    ///
    /// ```
    /// use redlock::testing::{Command, FaultyStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// let redlock = store.client().await?;
    /// store.every(Command::Any).lose_request(); // frozen, or cut off
    /// assert!(redlock.lock("stock-42").try_acquire().await.is_err());
    /// store.heal();
    /// assert!(redlock.lock("stock-42").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn heal(&self) {
        self.script(|script| *script = FaultScript::default());
    }

    /// The server restarts, and comes back without its data: no locks, no leases. Where several
    /// stores make a lock, it has no vote until the leases that it has forgotten are over
    /// ([`restart_guard`](crate::RedlockBuilder::restart_guard)).
    ///
    /// ```
    /// use redlock::LostReason;
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// let redlock = store.client().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// store.restart();
    /// assert_eq!(guard.lost().await, LostReason::Expired); // at its next renewal
    /// # Ok(()) }
    /// ```
    pub fn restart(&self) {
        self.node.store.clear();
        self.node.state().founders = None;
        self.begin(Cause::Restarted);
    }

    /// Another owner takes over the lock of `redis_key` (prefix included), for 30 s, as after a
    /// failover that lost it. The holder learns of it at its next renewal, or when it releases.
    ///
    /// # Panics
    /// If nobody holds the lock.
    ///
    /// ```
    /// use redlock::LostReason;
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// store.steal("lock:stock-42");
    /// assert_eq!(guard.lost().await, LostReason::Stolen);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn steal(&self, redis_key: &str) {
        self.assert_any_holder(redis_key);
        self.set(redis_key, Owner::of_nobody("thief").as_str(), STOLEN_FOR);
    }

    /// The lease of `redis_key` (prefix included) ends now on the server, as if its clock had
    /// jumped. The holder learns of it at its next renewal, or when it releases; others can take
    /// the lock at once.
    ///
    /// # Panics
    /// If nobody holds the lock.
    ///
    /// ```
    /// use redlock::LostReason;
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// store.expire("lock:stock-42");
    /// assert_eq!(guard.lost().await, LostReason::Expired);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn expire(&self, redis_key: &str) {
        self.assert_any_holder(redis_key);
        self.remove(redis_key);
    }

    /// The commands that came since the last call of this, oldest first, each as
    /// `acquire stock-42 <owner>`: to see that nothing was asked, or how often.
    ///
    /// ```
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// # let redlock = store.client().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(store.take_log(), [format!("acquire stock-42 {}", guard.owner())]);
    /// # Ok(()) }
    /// ```
    pub fn take_log(&self) -> Vec<String> {
        self.node.take_log()
    }

    pub(crate) fn node(&self) -> Arc<FaultyNode> {
        Arc::clone(&self.node)
    }

    fn script(&self, change: impl FnOnce(&mut FaultScript)) {
        change(&mut self.node.state().script);
    }

    /// A process of the server begins, with a name of its own.
    fn begin(&self, cause: Cause) {
        let (run_id, since) = (Owner::of_nobody("run").as_str().into(), Clock::Tokio.now());
        self.node.state().memory_since = Some(MemorySince::new(run_id, since, cause));
    }

    #[track_caller]
    fn assert_any_holder(&self, redis_key: &str) {
        assert!(
            self.owner(redis_key).is_some(),
            "nobody holds `{redis_key}` in this store; keys stand in it as in Redis, with the \
             prefix: `lock:stock-42`"
        );
    }
}

impl Deref for FaultyStore {
    type Target = MemoryStore;

    fn deref(&self) -> &MemoryStore {
        &self.node.store
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("node", &self.node).finish()
    }
}
