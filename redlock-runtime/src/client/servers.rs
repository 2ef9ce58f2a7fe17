//! The options of a builder that say which servers make a lock, and how.

use std::time::Duration;

use deadpool_redis::Pool;

use super::builder::RedlockBuilder;
use super::topology::Node;
use crate::backend::{MemoryStore, MinReplicas, Tls};

impl RedlockBuilder {
    /// Uses the Redis server at `url`: `redis://user:password@host:6379/0`, `rediss://` for TLS
    /// (feature `tls`), `unix:///path/to/socket`. It is the only one: beside another server
    /// [`build`](Self::build) refuses it. Several are [`urls`](Self::urls).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let builder = redlock::Redlock::builder().url("redis://10.0.0.7").url("redis://10.0.0.8");
    /// let error = builder.build().await.unwrap_err();
    /// assert!(error.to_string().contains("`.urls([..])`"));
    /// # }
    /// ```
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.topology.has_only = true;
        self.urls([url])
    }

    /// Uses the servers at these URLs. Several are N independent masters (not replicas of each
    /// other): a lock is held when a majority of them granted it (RedLock), and a minority may be
    /// down. Choose an odd number, 3 or 5; at least one is required.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let redlock = Redlock::builder().urls(urls).lazy().build().await?;
    /// # drop(redlock);
    /// # Ok(()) }
    /// ```
    pub fn urls(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.topology.nodes.extend(urls.into_iter().map(|url| Node::Url(url.into())));
        self
    }

    /// Uses the server of this pool. The pool is the source of connections: they are made with the
    /// URL and the settings of its client, on the background thread, and do not count against its
    /// size. Its hooks and the time-outs of the pool do not apply, nor does closing it: a user or a
    /// database that a hook (`post_create`) selects has to stand in the URL, or the locks are in
    /// another place. One of them waits on a list for the turns of its callers in the queue; a user
    /// with an ACL needs `+blpop`.
    ///
    /// What its [`Manager`](deadpool_redis::Manager) sets for each connection does apply. By
    /// default TCP, TLS and login together may take 1 s, and a server that needs longer can never
    /// be connected to: make the manager by `Manager::new_with_config` with
    /// `AsyncConnectionConfig::set_connection_timeout(None)`, as this library has a bound of its
    /// own. `AsyncConnectionConfig::set_concurrency_limit` must not be set: commands that wait for
    /// room may leave in another order than they came in, and a clean-up has to come after its
    /// command. Over a network the pool's client should set `TCP_NODELAY`
    /// (`TcpSettings::set_nodelay` of redis-rs), without which a call that follows a release waits
    /// for the answer to it, and `set_keepalive` (15 s, then 3 probes every 5 s) with
    /// `set_user_timeout` (30 s), without which a server that is gone without a word can go
    /// unnoticed for many minutes.
    ///
    /// ```
    /// use deadpool_redis::{Config, Runtime};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = Config::from_url("redis://10.0.0.7").create_pool(Some(Runtime::Tokio1))?;
    /// let redlock = redlock::Redlock::builder().pool(pool.clone()).lazy().build().await?;
    /// # drop(redlock);
    /// # Ok(()) }
    /// ```
    pub fn pool(mut self, pool: Pool) -> Self {
        self.topology.has_only = true;
        self.pools([pool])
    }

    /// Uses the servers of these pools; several are independent masters, as for
    /// [`urls`](Self::urls).
    ///
    /// ```
    /// use deadpool_redis::{Config, Runtime};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let pool = |url| Config::from_url(url).create_pool(Some(Runtime::Tokio1));
    /// let pools = urls.map(pool).into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let redlock = redlock::Redlock::builder().pools(pools).lazy().build().await?;
    /// # drop(redlock);
    /// # Ok(()) }
    /// ```
    pub fn pools(mut self, pools: impl IntoIterator<Item = Pool>) -> Self {
        self.topology.nodes.extend(pools.into_iter().map(Node::Pool));
        self
    }

    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    pub(super) fn node(mut self, node: Node) -> Self {
        self.topology.nodes.push(node);
        self
    }

    /// Keeps the locks in this process: for tests, whose clock may be paused, and for programs
    /// without a server. Such locks exclude nobody outside of this client and its clones.
    ///
    /// Renewals run on the background thread; where a test has paused tokio's clock, on that
    /// runtime and by its clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert!(redlock.clone().lock("stock-42").try_acquire().await?.is_none());
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn memory(self) -> Self {
        self.memory_store(MemoryStore::new())
    }

    /// Keeps the locks in `store`, which several clients may share.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let store = redlock::MemoryStore::new();
    /// let web = Redlock::builder().memory_store(store.clone()).build().await?;
    /// let job = Redlock::builder().memory_store(store).build().await?;
    /// let held = web.lock("nightly").acquire().await?;
    /// assert!(job.lock("nightly").try_acquire().await?.is_none());
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn memory_store(mut self, store: MemoryStore) -> Self {
        self.topology.nodes.push(Node::Memory(store));
        self
    }

    /// How many of the `N` servers make a lock: a majority, `N / 2 + 1`, to `N`; other numbers are
    /// an error of [`build`](Self::build). Default: a majority. More makes fencing tokens survive
    /// servers that forget: with `f` of them, `2 * quorum > N + f`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let builder = Redlock::builder().urls(urls).lazy();
    /// assert!(builder.clone().quorum(3).build().await.is_ok());
    /// assert!(builder.quorum(1).build().await.is_err()); // two clients could have one each
    /// # Ok(()) }
    /// ```
    pub fn quorum(mut self, quorum: usize) -> Self {
        self.topology.quorum = Some(quorum);
        self
    }

    /// Whether a server that may have forgotten leases has a vote. A server that was restarted may
    /// have come back empty: with the guard, it has no vote until every lease that it may have
    /// granted before is over; the same goes for a promoted replica in its place, and for a server
    /// whose clock jumped. Default: on with several servers, off with one, where the guard means
    /// that nobody gets a lock for that long, also when the first client meets the server.
    ///
    /// One server with the guard, also a master behind sentinels, is a quorum of one: it keeps no
    /// queue, so that waiters poll, and are told of releases as with several servers, and it
    /// refuses [`permits`](crate::LockRequest::permits).
    ///
    /// Switch it off for servers that lose nothing (`appendonly yes`, `appendfsync always`). The
    /// guard needs `+info` and a `run_id` in what INFO tells: a server that does not say who it is
    /// is not used. Errors of servers without a vote have the kind
    /// [`Quarantined`](crate::NodeErrorKind::Quarantined). One server under two addresses is an
    /// error of [`build`](Self::build), with the guard and without it, where both of them answer
    /// and tell a `run_id`. A client that finds it out later, as a [`lazy`](Self::lazy) one, gives
    /// the server one vote: with the guard from the beginning, without it once both addresses have
    /// told who they are, which they are asked beside the first commands.
    ///
    /// The guard is not for `cluster`, where it is an error of [`build`](Self::build); `memory`
    /// does not look at it.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder()
    ///     .url("redis://127.0.0.1:6379")
    ///     .restart_guard(true)
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn restart_guard(mut self, is_on: bool) -> Self {
        self.topology.restart_guard = Some(is_on);
        self
    }

    /// The longest `expire` or `min_hold` that any client uses on these servers: this is how long
    /// a restarted server has no vote. 365 days at most. Default: the longest that this client has
    /// used itself so far; where that is longer, it counts.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder()
    ///     .urls(["redis://a:6379", "redis://b:6379", "redis://c:6379"])
    ///     .longest_expire(Duration::from_secs(60))
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn longest_expire(mut self, longest: Duration) -> Self {
        self.topology.longest_expire = Some(longest);
        self
    }

    /// Counts a lock, and each of its renewals, only once `replicas` replicas of the server have
    /// it, `within` this time (`WAIT`, on the same connection). With fewer, the lock is given back
    /// and the call fails with [`Unavailable`](crate::LockError::Unavailable) and the kind
    /// [`NoReplicas`](crate::NodeErrorKind::NoReplicas), after trying again until `wait` is over.
    ///
    /// This makes it less likely that a failover loses a lock, not impossible: the replica that is
    /// promoted may be another one. Needs `+wait`. `replicas` is 1 or more, `within` more than zero
    /// and less than `reply_timeout`. Default: replicas are not asked. Not for `memory` and
    /// `cluster`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::builder()
    ///     .url("redis://127.0.0.1:6379")
    ///     .min_replicas(1, Duration::from_millis(100))
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn min_replicas(mut self, replicas: u32, within: Duration) -> Self {
        self.topology.min_replicas = Some(MinReplicas { needed: replicas, within });
        self
    }

    /// Whom the `rediss://` URLs of this client trust, and which certificate they show; also at
    /// the servers that sentinels or a cluster name. Other URLs, a master that sentinels know by a
    /// bare name, pools and `memory` are then an error of [`build`](Self::build): they would not be
    /// encrypted by it. Default: the roots of Mozilla, no client certificate.
    ///
    /// Sentinels and the servers of a cluster name addresses, which certificates then must have,
    /// unless they are told to name hosts (`docs/security.md`).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let tls = redlock::Tls::new();
    /// let redlock = Redlock::builder().url("rediss://10.0.0.7").tls(tls).lazy().build().await?;
    /// # drop(redlock);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(self, tls: Tls) -> Self {
        self.with_tls(Some(tls))
    }

    pub(crate) fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.topology.tls = tls;
        self
    }
}
