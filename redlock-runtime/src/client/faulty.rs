//! Clients on stores that play faults (`redlock::testing`).

use std::sync::Arc;
use std::time::Duration;

use super::builder::RedlockBuilder;
use super::redlock::Redlock;
use super::topology::{Assembled, Node, Topology};
use crate::backend::{FaultyStore, Quorum, QuorumMember, RestartGuard, Rules};
use crate::clock::Clock;
use crate::error::LockError;
use crate::key::FOUNDERS_SUFFIX;
use crate::report::Reports;

impl RedlockBuilder {
    /// Keeps the locks in a store that plays faults, for tests (feature `test-util`); see
    /// [`redlock::testing`](crate::testing). Other clients may share the store. As with one Redis,
    /// [`build`](Self::build) fails while the store is [`down`](FaultyStore::down), and it is the
    /// only one.
    ///
    /// ```
    /// use redlock::Redlock;
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// let web = Redlock::builder().faulty_store(&store).client_name("web-1").build().await?;
    /// let job = Redlock::builder().faulty_store(&store).client_name("job-1").build().await?;
    /// let held = web.lock("nightly").acquire().await?;
    /// assert!(job.lock("nightly").try_acquire().await?.is_none());
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn faulty_store(mut self, store: &FaultyStore) -> Self {
        self.topology.has_only = true;
        self.faulty_stores([store])
    }

    /// Keeps the locks on a quorum of stores that play faults, which are independent masters, as
    /// with [`urls`](Self::urls) (feature `test-util`): a minority of them may be down.
    ///
    /// ```
    /// use redlock::Redlock;
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let masters: [FaultyStore; 5] = FaultyStore::masters();
    /// let redlock = Redlock::builder().faulty_stores(&masters).build().await?;
    /// masters[1].down();
    /// masters[3].down();
    /// redlock.lock("stock-42").acquire().await?.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn faulty_stores<'a>(mut self, stores: impl IntoIterator<Item = &'a FaultyStore>) -> Self {
        self.topology.nodes.extend(stores.into_iter().cloned().map(Node::Faulty));
        self
    }
}

impl FaultyStore {
    /// A client of this store with default options, as a process of its own would have one.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] while the store is [`down`](Self::down) or does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    ///
    /// ```
    /// use redlock::testing::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = FaultyStore::new();
    /// let (web, job) = (store.client().await?, store.client().await?);
    /// let held = web.lock("nightly").acquire().await?;
    /// assert!(job.lock("nightly").try_acquire().await?.is_none());
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub async fn client(&self) -> Result<Redlock, LockError> {
        Redlock::builder().faulty_store(self).build().await
    }
}

impl Topology {
    pub(super) fn faulty(
        self,
        quorum: usize,
        prefix: &str,
        reply_timeout: Duration,
        expire: Duration,
    ) -> Result<Assembled, LockError> {
        let store =
            |node: &Node| if let Node::Faulty(store) = node { Some(store.node()) } else { None };
        let stores: Vec<_> = self.nodes.iter().filter_map(store).collect();
        let count = stores.len();
        if count < self.nodes.len() || (self.has_only && count > 1) {
            return Err(LockError::config(
                "`faulty_store` stands alone; several masters of a test are `.faulty_stores([..])`",
            ));
        }
        if self.min_replicas.is_some() {
            return Err(LockError::config("a store has no replicas; leave `min_replicas` out"));
        }
        let reports = Arc::new(Reports::new(Clock::Tokio));
        let is_guarded = self.restart_guard.unwrap_or(count > 1);
        if let ([store], false) = (&stores[..], is_guarded) {
            return Ok(Assembled { backend: Arc::clone(store) as _, is_embedded: true, reports });
        }
        let others = self.longest_expire.unwrap_or_default();
        let founders_key = [prefix, FOUNDERS_SUFFIX].concat().into();
        let guard = || RestartGuard::new(Clock::Tokio, founders_key, others, expire);
        let guard = is_guarded.then(guard);
        let nodes = stores.into_iter().map(|store| store as Arc<dyn QuorumMember>).collect();
        let rules = Rules { quorum, guard, replica_wait: Duration::ZERO, reply_timeout };
        Ok(Assembled { backend: Arc::new(Quorum::new(nodes, rules)), is_embedded: true, reports })
    }
}
