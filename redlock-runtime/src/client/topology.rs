//! Which servers, and how they make a lock: the options become a backend.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Pool;

#[cfg(any(test, feature = "test-util"))]
use crate::backend::FaultyStore;
#[cfg(feature = "cluster")]
use crate::backend::RedisCluster;
use crate::backend::{
    LockBackend, Memory, MemoryStore, MinReplicas, NodeOptions, Quorum, QuorumMember, RedisNode,
    RestartGuard, Rules, Siblings, Tls, majority,
};
use crate::clock::Clock;
use crate::error::LockError;
use crate::key::FOUNDERS_SUFFIX;
use crate::report::Reports;

/// One place of locks, as the options name it.
#[derive(Clone)]
pub(super) enum Node {
    Url(String),
    Pool(Pool),
    Memory(MemoryStore),
    #[cfg(any(test, feature = "test-util"))]
    Faulty(FaultyStore),
    #[cfg(feature = "sentinel")]
    Sentinel {
        urls: Vec<String>,
        master: String,
    },
    #[cfg(feature = "sentinel")]
    SentinelPool(deadpool_redis::sentinel::Pool),
    #[cfg(feature = "cluster")]
    Cluster(Vec<String>),
    #[cfg(feature = "cluster")]
    ClusterPool(deadpool_redis::cluster::Pool),
}

/// The options that say where locks stand.
#[derive(Clone, Default)]
pub(super) struct Topology {
    pub(super) nodes: Vec<Node>,
    /// One of them was named as the only one.
    pub(super) has_only: bool,
    pub(super) quorum: Option<usize>,
    pub(super) restart_guard: Option<bool>,
    pub(super) longest_expire: Option<Duration>,
    pub(super) min_replicas: Option<MinReplicas>,
    pub(super) tls: Option<Tls>,
}

/// What they come to.
pub(super) struct Assembled {
    pub(super) backend: Arc<dyn LockBackend>,
    /// It is in this process.
    pub(super) is_embedded: bool,
    pub(super) reports: Arc<Reports>,
}

impl Node {
    #[cfg(feature = "cluster")]
    fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_) | Self::ClusterPool(_))
    }

    /// Does this client itself connect to the servers, which are named by URLs?
    fn has_urls(&self) -> bool {
        match self {
            Self::Url(_) => true,
            #[cfg(feature = "sentinel")]
            Self::Sentinel { .. } => true,
            #[cfg(feature = "cluster")]
            Self::Cluster(_) => true,
            _ => false,
        }
    }

    fn open(
        self,
        index: usize,
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Arc<dyn QuorumMember>, LockError> {
        Ok(match self {
            Self::Url(url) => Arc::new(RedisNode::open(&url, tls, options)?),
            Self::Pool(pool) => Arc::new(RedisNode::from_pool(&pool, index, options)),
            Self::Memory(_) => unreachable!("`memory` stands alone"),
            #[cfg(any(test, feature = "test-util"))]
            Self::Faulty(_) => unreachable!("stores are no servers"),
            #[cfg(feature = "cluster")]
            Self::Cluster(_) | Self::ClusterPool(_) => unreachable!("`cluster` stands alone"),
            #[cfg(feature = "sentinel")]
            Self::Sentinel { urls, master } => {
                Arc::new(RedisNode::watched(&urls, &master, tls, options)?)
            }
            #[cfg(feature = "sentinel")]
            Self::SentinelPool(pool) => {
                Arc::new(RedisNode::from_sentinel_pool(pool, index, options))
            }
        })
    }
}

impl Topology {
    /// The only place that names concrete backends. `expire`: that of calls which name none.
    pub(super) fn assemble(
        self,
        prefix: &str,
        client_name: &str,
        reply_timeout: Duration,
        expire: Duration,
    ) -> Result<Assembled, LockError> {
        let quorum = self.checked_quorum()?;
        self.check_replicas(reply_timeout)?;
        self.check_tls()?;
        let count = self.nodes.len();
        if self.nodes.iter().any(|node| matches!(node, Node::Memory(_))) {
            return self.memory();
        }
        #[cfg(any(test, feature = "test-util"))]
        if self.nodes.iter().any(|node| matches!(node, Node::Faulty(_))) {
            return self.faulty(quorum, prefix, reply_timeout, expire);
        }
        let reports = Arc::new(Reports::new(Clock::Boot));
        let mut options = NodeOptions {
            client: client_name.into(),
            reports: Arc::clone(&reports),
            prefix: prefix.into(),
            founders_key: None,
            min_replicas: self.min_replicas,
            siblings: Siblings::default(),
        };
        #[cfg(feature = "cluster")]
        if self.nodes.iter().any(Node::is_cluster) {
            return self.cluster(reply_timeout, options);
        }
        if self.has_only && count > 1 {
            return Err(LockError::config(format!(
                "`.url(..)` and `.pool(..)` name the only server, but there are {count}; several \
                 independent masters are `.urls([..])` or `.pools([..])`"
            )));
        }
        let is_guarded = self.restart_guard.unwrap_or(count > 1);
        let founders_key: Arc<str> = [prefix, FOUNDERS_SUFFIX].concat().into();
        options.founders_key = is_guarded.then(|| Arc::clone(&founders_key));
        let mut nodes = Vec::with_capacity(count);
        for (index, node) in self.nodes.into_iter().enumerate() {
            nodes.push(node.open(index, self.tls.as_ref(), options.clone())?);
        }
        if !is_guarded && count == 1 {
            return Ok(Assembled { backend: nodes.remove(0), is_embedded: false, reports });
        }
        let others = self.longest_expire.unwrap_or_default();
        let guard = || RestartGuard::new(Clock::Boot, founders_key, others, expire);
        let guard = is_guarded.then(guard);
        let replica_wait = self.min_replicas.map_or(Duration::ZERO, |replicas| replicas.within);
        let rules = Rules { quorum, guard, replica_wait, reply_timeout };
        let backend = Quorum::new(nodes, rules);
        Ok(Assembled { backend: Arc::new(backend), is_embedded: false, reports })
    }

    fn checked_quorum(&self) -> Result<usize, LockError> {
        let count = self.nodes.len();
        if count == 0 {
            return Err(LockError::config(
                "no server is named; call `.url(\"redis://127.0.0.1:6379\")`, `.pool(..)` or \
                 `.memory()` on the builder",
            ));
        }
        let quorum = self.quorum.unwrap_or_else(|| majority(count));
        if (majority(count)..=count).contains(&quorum) {
            return Ok(quorum);
        }
        Err(LockError::config(format!(
            "`quorum` is {quorum}, but of {count} servers it must be {} to {count}: two quorums \
             have to share one",
            majority(count)
        )))
    }

    fn check_replicas(&self, reply_timeout: Duration) -> Result<(), LockError> {
        let Some(MinReplicas { needed, within }) = self.min_replicas else { return Ok(()) };
        if needed == 0 {
            return Err(LockError::config("`min_replicas` of 0 asks for nothing; leave it out"));
        }
        if within.is_zero() || within >= reply_timeout {
            return Err(LockError::config(format!(
                "`min_replicas` waits {within:?} for replicas; it must be more than zero and less \
                 than `reply_timeout`, which is {reply_timeout:?}"
            )));
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<(), LockError> {
        if self.tls.is_none() || self.nodes.iter().all(Node::has_urls) {
            return Ok(());
        }
        Err(LockError::config(
            "`tls` is for `rediss://` URLs; a pool connects with settings of its own, and `memory` \
             not at all; leave `tls` out, or name the servers by `rediss://` URLs",
        ))
    }

    #[cfg(feature = "cluster")]
    fn cluster(
        mut self,
        reply_timeout: Duration,
        options: NodeOptions,
    ) -> Result<Assembled, LockError> {
        if self.min_replicas.is_some() || self.restart_guard == Some(true) {
            return Err(LockError::config(
                "`min_replicas` and `restart_guard` are not for `cluster`: its servers replace \
                 each other by themselves; set `min-replicas-to-write` on them, from Redis 7.0 on",
            ));
        }
        let reports = Arc::clone(&options.reports);
        let backend = match (self.nodes.pop(), self.nodes.is_empty()) {
            (Some(Node::Cluster(urls)), true) => {
                RedisCluster::open(&urls, self.tls.as_ref(), reply_timeout, options)?
            }
            (Some(Node::ClusterPool(pool)), true) => RedisCluster::from_pool(pool, options),
            _ => return Err(LockError::config("`cluster` stands alone; it is several already")),
        };
        Ok(Assembled { backend: Arc::new(backend), is_embedded: false, reports })
    }

    fn memory(mut self) -> Result<Assembled, LockError> {
        if self.min_replicas.is_some() {
            return Err(LockError::config("`memory` has no replicas; leave `min_replicas` out"));
        }
        match (self.nodes.pop(), self.nodes.is_empty()) {
            (Some(Node::Memory(store)), true) => {
                let (backend, reports) = (Memory::new(store), Reports::new(Clock::Tokio));
                let (backend, reports) = (Arc::new(backend), Arc::new(reports));
                Ok(Assembled { backend, is_embedded: true, reports })
            }
            _ => Err(LockError::config("`memory` stands alone; it cannot be one node of several")),
        }
    }
}
