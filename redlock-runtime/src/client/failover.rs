//! Servers that replace each other: the options of a builder that need a feature.

use super::builder::RedlockBuilder;
use super::topology::Node;

#[cfg(feature = "sentinel")]
impl RedlockBuilder {
    /// Uses the master that the sentinels at these URLs call `master_name`, whichever server that
    /// is at the time (feature `sentinel`). A connection that breaks, is not answered or leads to
    /// a replica is given up, and the sentinels are asked again; so they are every second or two,
    /// as a failover need not break a connection. The master counts that most of them name: name
    /// all of them, each once, as one that was cut off may name a master that was replaced. One
    /// that answers is enough. A master that was replaced is not used, also where this client does
    /// not reach the new one: locks are unavailable then.
    ///
    /// User and password in `urls` are those of the sentinels. Where the master wants a login, a
    /// database or TLS, `master_name` is a URL with the name in the place of the host:
    /// `redis://user:password@mymaster/0`, or `rediss://..`. The certificates of `tls` are for
    /// both, the sentinels and the master.
    ///
    /// A failover may forget locks that were granted in the last moments, since replicas lag
    /// behind their master: two can hold a lock then, until the first one's lease ends. The
    /// fencing token still tells them apart. Several independent masters ([`urls`](Self::urls))
    /// have no such gap.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder()
    ///     .sentinel(
    ///         ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"],
    ///         "mymaster",
    ///     )
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn sentinel(
        self,
        urls: impl IntoIterator<Item = impl Into<String>>,
        master_name: impl Into<String>,
    ) -> Self {
        let urls = urls.into_iter().map(Into::into).collect();
        self.node(Node::Sentinel { urls, master: master_name.into() })
    }

    /// The same with a pool of `deadpool-redis`, which is the source of connections, as for
    /// [`pool`](Self::pool). It must be one of master connections, and should be redlock's own:
    /// such a pool makes one connection at a time, so that a runtime of the program that blocks in
    /// the middle of a `get` keeps redlock from connecting, and leases may be lost meanwhile.
    ///
    /// ```no_run
    /// use deadpool_redis::sentinel::{Config, SentinelServerType};
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let sentinels = vec!["redis://10.0.0.1:26379".to_owned()];
    /// let kind = SentinelServerType::Master;
    /// let config = Config::from_urls(sentinels, "mymaster".to_owned(), kind);
    /// let pool = config.create_pool(Some(deadpool_redis::Runtime::Tokio1))?;
    /// let redlock = redlock::Redlock::builder().sentinel_pool(pool).build().await?;
    /// # Ok(()) }
    /// ```
    pub fn sentinel_pool(self, pool: deadpool_redis::sentinel::Pool) -> Self {
        self.node(Node::SentinelPool(pool))
    }
}

#[cfg(feature = "cluster")]
impl RedlockBuilder {
    /// Uses the Redis Cluster to which the servers at these URLs belong (feature `cluster`). Name
    /// several, so that a client can start while one is down; the others it finds itself. User and
    /// password are the same for all, and so are the certificates of `tls`.
    ///
    /// Each lock stands on the master of its key's slot. Leases on other masters live on while one
    /// is silent or being replaced.
    ///
    /// A failover may forget locks that were granted in the last moments, as with `sentinel`.
    /// This is not RedLock: a lock has one master. Where that is not enough, name independent
    /// masters with [`urls`](Self::urls).
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder()
    ///     .cluster(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"])
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn cluster(self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.node(Node::Cluster(urls.into_iter().map(Into::into).collect()))
    }

    /// The same with a pool of `deadpool-redis`, which is the source of connections, as for
    /// [`pool`](Self::pool). A pool does not tell what each of its servers has said: a login that
    /// all of them refuse counts as an outage, and calls try for the whole of their `wait`.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let urls = vec!["redis://10.0.0.1:6379".to_owned()];
    /// let config = deadpool_redis::cluster::Config::from_urls(urls);
    /// let pool = config.create_pool(Some(deadpool_redis::Runtime::Tokio1))?;
    /// let redlock = redlock::Redlock::builder().cluster_pool(pool).build().await?;
    /// # Ok(()) }
    /// ```
    pub fn cluster_pool(self, pool: deadpool_redis::cluster::Pool) -> Self {
        self.node(Node::ClusterPool(pool))
    }
}
