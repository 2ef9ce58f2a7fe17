//! The options of a client, checked together when it is built.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::redlock::Redlock;
use super::topology::{Assembled, Topology};
use crate::engine::{Engine, Parts};
use crate::error::{LockError, NodeErrorKind};
use crate::options::{MAX_EXPIRE, Policy, StatedOptions, Wait};
use crate::{foreign_text, owner, telemetry};

const DEFAULT_PREFIX: &str = "lock:";
const DEFAULT_REPLY_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_MAX_WAITERS: usize = 10_000;
const LONGEST_NAME: usize = 256;

/// Builds a [`Redlock`].
///
/// | option | meaning | default |
/// | --- | --- | --- |
/// | [`url`](Self::url), [`urls`](Self::urls) | where: a server, or N masters | required |
/// | [`pool`](Self::pool), [`pools`](Self::pools) | the same, by their pools | |
/// | `sentinel`, `sentinel_pool` | a master that is replaced (feature `sentinel`) | |
/// | `cluster`, `cluster_pool` | a Redis Cluster (feature `cluster`) | |
/// | [`memory`](Self::memory), [`memory_store`](Self::memory_store) | in this process | |
/// | `faulty_store`, `faulty_stores` | the same with faults (feature `test-util`) | |
/// | [`quorum`](Self::quorum) | servers that make a lock, where there are several | a majority |
/// | [`restart_guard`](Self::restart_guard) | no vote for restarted servers | if several |
/// | [`longest_expire`](Self::longest_expire) | for how long | longest lease so far |
/// | [`min_replicas`](Self::min_replicas) | replicas that must have a lock | 0 |
/// | `tls` | private CA, client certificate (feature `tls`) | roots of Mozilla |
/// | [`prefix`](Self::prefix) | put before every key | `lock:` |
/// | [`client_name`](Self::client_name) | begins every owner value | `<host>-<pid>` |
/// | [`expire`](Self::expire) | lease length | 30 s |
/// | [`wait`](Self::wait) | how long to queue | 5 s |
/// | [`max_renew`](Self::max_renew) | renewals before the body is stopped | no limit |
/// | [`reply_timeout`](Self::reply_timeout) | how long one command may take | 1 s |
/// | [`outage_wait`](Self::outage_wait) | how long to wait for dead servers | the whole `wait` |
/// | [`max_waiters`](Self::max_waiters) | callers that may wait at once | 10,000 |
/// | [`lazy`](Self::lazy) | `build` asks no server | it asks |
///
/// ```no_run
/// use std::time::Duration;
/// # async fn demo() -> Result<(), redlock::LockError> {
/// let redlock = redlock::Redlock::builder()
///     .url("redis://127.0.0.1:6379")
///     .prefix("shop:lock:")
///     .expire(Duration::from_secs(10))
///     .build()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Clone)]
pub struct RedlockBuilder {
    prefix: String,
    client_name: Option<String>,
    stated: StatedOptions,
    reply_timeout: Duration,
    outage_wait: Option<Duration>,
    max_waiters: usize,
    is_lazy: bool,
    pub(super) topology: Topology,
}

impl RedlockBuilder {
    pub(super) fn new() -> Self {
        Self {
            prefix: DEFAULT_PREFIX.to_owned(),
            client_name: None,
            stated: StatedOptions::NONE,
            reply_timeout: DEFAULT_REPLY_TIMEOUT,
            outage_wait: None,
            max_waiters: DEFAULT_MAX_WAITERS,
            is_lazy: false,
            topology: Topology::default(),
        }
    }

    /// Put before every key: 0 to 256 bytes without control characters and braces. Default `lock:`.
    /// One per application keeps the locks of applications on one server apart.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().memory().prefix("shop:lock:").build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.redis_key(), "shop:lock:stock-42");
    /// # Ok(()) }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Begins every owner value, so that an operator who reads a key finds its holder, and names
    /// connections in `CLIENT LIST` (`redlock:<name>`, with `_` for characters that Redis does not
    /// take there), except those of pools and clusters. 1 to 256 bytes without control characters,
    /// and not ending in `:retained`. Default `<host>-<pid>`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().memory().client_name("web-3").build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert!(guard.owner().starts_with("web-3:"));
    /// # Ok(()) }
    /// ```
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into());
        self
    }

    /// The lease of locks that do not say otherwise: how long a lock outlives a holder that died.
    /// 10 ms to 365 days, cut to whole milliseconds. Default 30 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// use std::time::Duration;
    /// let builder = Redlock::builder().memory().expire(Duration::from_secs(60));
    /// let guard = builder.build().await?.lock("stock-42").acquire().await?;
    /// assert!(guard.remaining() > Duration::from_secs(30));
    /// # Ok(()) }
    /// ```
    pub fn expire(mut self, expire: Duration) -> Self {
        self.stated.expire = Some(expire);
        self
    }

    /// How long to queue for locks that do not say otherwise, connecting included: a `Duration`, of
    /// which zero is one attempt and the longest is not limited, [`Wait::Never`] or
    /// [`Wait::Forever`]. Default 5 s. A function with `on_busy = "skip"` needs a `wait` of its own
    /// beside [`Wait::Forever`]: its calls fail with [`LockError::Config`] otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().memory().wait(redlock::Wait::Never).build().await?;
    /// let held = redlock.lock("stock-42").acquire().await?;
    /// assert!(redlock.lock("stock-42").acquire().await.unwrap_err().is_busy());
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.stated.wait = Some(wait.into());
        self
    }

    /// How many times the lease of a lock that does not say otherwise is renewed before it is lost
    /// on purpose: 0, never renewed, to `u32::MAX`. Default: no limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().memory().max_renew(0).build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.lost().await, redlock::LostReason::RenewalLimit); // before 30 s are over
    /// # Ok(()) }
    /// ```
    pub fn max_renew(mut self, max_renew: u32) -> Self {
        self.stated.max_renew = Some(max_renew);
        self
    }

    /// How long one command may take, connecting included: more than zero, 365 days at most.
    /// Default 1 s. Renewals of short leases have less: a twelfth of their `expire`, 20 ms at
    /// least. A connect that takes longer goes on in the background, for up to 10 s, and serves the
    /// commands that come later.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// use std::time::Duration;
    /// let builder = Redlock::builder().url("redis://10.0.0.7").lazy();
    /// let redlock = builder.reply_timeout(Duration::from_millis(300)).build().await?;
    /// # drop(redlock);
    /// # Ok(()) }
    /// ```
    pub fn reply_timeout(mut self, reply_timeout: Duration) -> Self {
        self.reply_timeout = reply_timeout;
        self
    }

    /// How long a call waits for servers that do not answer: zero, where the first failed attempt
    /// ends the call, to 365 days. Default: for its whole `wait`.
    ///
    /// A call waits through a failover or a restart. In an outage that lasts longer, calls would
    /// pile up for nothing: once a call has spent this time on failed attempts alone, it fails with
    /// [`LockError::Unavailable`], also where its `wait` is longer, or [`Wait::Forever`]. Time
    /// during which servers answered, and somebody held the lock, does not count. An attempt that
    /// is under way is completed, so that a call may take up to `reply_timeout` longer, and twice
    /// that on N masters and with the restart guard. Leaders ([`lead`](crate::LockRequest::lead))
    /// campaign on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::{Redlock, Wait};
    /// use std::time::Duration;
    /// let builder = Redlock::builder().url("redis://127.0.0.1:1").lazy();
    /// let redlock = builder.outage_wait(Duration::from_millis(20)).build().await?;
    /// let error = redlock.lock("stock-42").wait(Wait::Forever).acquire().await.unwrap_err();
    /// assert!(error.is_unavailable());
    /// # Ok(()) }
    /// ```
    pub fn outage_wait(mut self, outage_wait: Duration) -> Self {
        self.outage_wait = Some(outage_wait);
        self
    }

    /// How many callers of this client may wait at once, for all its keys together; one more gets
    /// [`LockError::TooManyWaiters`]. There is no upper bound. Default 10,000.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().memory().max_waiters(0).build().await?;
    /// let held = redlock.lock("stock-42").acquire().await?;
    /// let error = redlock.lock("stock-42").acquire().await.unwrap_err();
    /// assert!(matches!(error, redlock::LockError::TooManyWaiters { .. }));
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// Does not ask the server anything before the first lock is taken: `build` then succeeds
    /// without a server. Default: `build` asks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// let redlock = Redlock::builder().url("redis://127.0.0.1:1").lazy().build().await?;
    /// let error = redlock.lock("stock-42").try_acquire().await.unwrap_err();
    /// assert!(error.is_unavailable());
    /// # Ok(()) }
    /// ```
    pub fn lazy(mut self) -> Self {
        self.is_lazy = true;
        self
    }

    /// Builds the client. Unless [`lazy`](Self::lazy), it connects, and checks the version of the
    /// server; an eviction policy that may evict locks is a warning event. A server that refuses is
    /// an error at once; one that is silent has `reply_timeout`, and 10 s at least, as a connection
    /// takes more round trips than a command. A silent minority of several masters has only as long
    /// again as the others took, and `reply_timeout` at least.
    ///
    /// A runtime of tokio that sends many commands gets a connection of its own. It should have
    /// timers and sockets (`enable_all`): one that lacks them works, but costs one panic, which the
    /// library catches and a panic hook sees.
    ///
    /// # Errors
    /// [`LockError::Config`] for options that cannot work, [`LockError::Unavailable`] when the
    /// server cannot be reached, refuses the login, is a replica, a sentinel, one server of a
    /// cluster, or too old, [`LockError::BackgroundThread`] when the background thread cannot be
    /// started.
    ///
    /// # Cancel safety
    /// Dropping the future gives the client up; nothing is left behind.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// use redlock::Redlock;
    /// use std::time::Duration;
    /// let redlock = Redlock::builder().memory().expire(Duration::from_secs(10)).build().await?;
    /// let error = Redlock::builder().memory().expire(Duration::ZERO).build().await.unwrap_err();
    /// assert!(matches!(error, redlock::LockError::Config { .. }));
    /// # drop(redlock);
    /// # Ok(()) }
    /// ```
    pub async fn build(self) -> Result<Redlock, LockError> {
        telemetry::describe();
        let policy = Policy::DEFAULT.with(self.stated)?;
        check_prefix(&self.prefix)?;
        let client_name = self.checked_client_name()?;
        if self.reply_timeout.is_zero() {
            return Err(LockError::config("`reply_timeout` is zero: no command could be answered"));
        }
        check_length("reply_timeout", self.reply_timeout)?;
        check_length("outage_wait", self.outage_wait.unwrap_or_default())?;
        check_length("longest_expire", self.topology.longest_expire.unwrap_or_default())?;
        let Assembled { backend, is_embedded, reports } = self.topology.assemble(
            &self.prefix,
            &client_name,
            self.reply_timeout,
            policy.expire(),
        )?;
        // Without requests and replies there is nothing that could fail.
        let is_certain = backend.abilities().is_synchronous;
        let engine = Engine::new(Parts {
            backend,
            client_name,
            reply_timeout: self.reply_timeout,
            outage_wait: self.outage_wait,
            max_waiters: self.max_waiters,
            is_embedded,
            reports,
        })?;
        if !self.is_lazy && !is_certain {
            verify(&engine).await?;
        }
        Ok(Redlock::new(engine, self.prefix, policy))
    }

    fn checked_client_name(&self) -> Result<String, LockError> {
        let Some(name) = &self.client_name else { return Ok(owner::default_client_name()) };
        if name.ends_with(owner::RETAINED) {
            let name = foreign_text::cut(name);
            return Err(LockError::config(format!(
                "`client_name` {name:?} cannot be used: `{}` at its end marks locks that nobody \
                 holds",
                owner::RETAINED
            )));
        }
        if !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control) {
            return Ok(name.clone());
        }
        let name = foreign_text::cut(name);
        Err(LockError::config(format!(
            "`client_name` {name:?} cannot be used: it needs 1 to {LONGEST_NAME} bytes without \
             control characters"
        )))
    }
}

/// Can the keys of locks begin with this?
pub(crate) fn check_prefix(prefix: &str) -> Result<(), LockError> {
    let is_fit = prefix.len() <= LONGEST_NAME && !prefix.chars().any(char::is_control);
    if is_fit && !prefix.contains(['{', '}']) {
        return Ok(());
    }
    let prefix = foreign_text::cut(prefix);
    Err(LockError::config(format!(
        "`prefix` {prefix:?} cannot be used: it may have up to {LONGEST_NAME} bytes, without \
         control characters and braces (put a hash tag into the key)"
    )))
}

/// A time that is added to others must not reach beyond what a clock can show.
fn check_length(option: &str, length: Duration) -> Result<(), LockError> {
    if length <= MAX_EXPIRE {
        return Ok(());
    }
    Err(LockError::config(format!("`{option}` is {length:?}; it can be 365 days at most")))
}

/// Asks the backend on its own executor, where its connections live.
async fn verify(engine: &Arc<Engine>) -> Result<(), LockError> {
    let own = Arc::clone(engine);
    let verify = async move { own.backend.verify(own.reply_timeout).await };
    let Err(fault) = engine.executor().run("startup", verify).await? else { return Ok(()) };
    if fault.nodes.iter().any(|node| node.kind() == NodeErrorKind::Duplicate) {
        let nodes: Vec<_> = fault.nodes.iter().map(ToString::to_string).collect();
        return Err(LockError::config(nodes.join("; ")));
    }
    Err(LockError::Unavailable { key: String::new(), nodes: fault.nodes })
}

/// Without URLs and pools: they hold passwords.
impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockBuilder")
            .field("nodes", &self.topology.nodes.len())
            .field("prefix", &self.prefix)
            .field("client_name", &self.client_name)
            .field("expire", &self.stated.expire)
            .field("wait", &self.stated.wait)
            .field("max_renew", &self.stated.max_renew)
            .field("reply_timeout", &self.reply_timeout)
            .field("outage_wait", &self.outage_wait)
            .field("max_waiters", &self.max_waiters)
            .field("is_lazy", &self.is_lazy)
            .field("quorum", &self.topology.quorum)
            .field("restart_guard", &self.topology.restart_guard)
            .field("longest_expire", &self.topology.longest_expire)
            .field("min_replicas", &self.topology.min_replicas)
            .field("tls", &self.topology.tls)
            .finish()
    }
}
