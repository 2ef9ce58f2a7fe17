//! The sources of a node's connections.

use std::time::Duration;

use deadpool::managed::Manager;
use deadpool_redis::Pool;
use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::{ConnectionInfo, RedisResult};

use super::host_lookup::HostLookup;
use super::{dial, ended, unasked};
use crate::backend::redis::pubsub::{Listener, PubsubStream, mailbox, subscription};
use crate::clock::Moment;

/// How long it may take to make a connection: TCP, TLS, the login, and the commands that identify
/// the server. Callers wait for it as long as they may, and find it made when they come again.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// Longer than any timeout of this library: the timeouts that the owner of a pool has set must not
/// fire before ours.
pub(crate) const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Makes connections. A pool is a source, never the place where connections are kept: they are made
/// on the background thread, whose runtime lives as long as the process, and stay there.
pub(crate) trait Source: Send + Sync + 'static {
    /// Clones share the socket.
    type Connection: ConnectionLike + Clone + Send + Sync + 'static;

    /// A new connection, logged in. Cancel safe: a half-made connection is dropped.
    fn connect(&self) -> impl Future<Output = RedisResult<Self::Connection>> + Send;

    /// Does a connection lead to one server, and is it useless without that server? Otherwise a
    /// connection leads to many servers, and serves the others while one of them is silent.
    const LEADS_TO_ONE: bool = true;

    /// How often the pause before the next connection doubles while none can be made.
    const PAUSE_DOUBLINGS: u32 = 3;

    /// How often a command is repeated whose connection broke.
    const REPEATS: u32 = 1;

    /// Does the client library send a command again by itself when its connection broke, without
    /// saying so?
    fn repeats_unseen(&self) -> bool {
        false
    }

    /// Do its connections begin timers of their own with each command, on the runtime of whoever
    /// polls?
    fn has_timers(&self) -> bool {
        false
    }

    /// Does the server of `key` answer, or any server at all?
    fn leads(
        _connection: &mut Self::Connection,
        _key: Option<&str>,
    ) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    /// Has a connection ended while nobody used it? Nothing is sent for this.
    fn has_ended(_connection: &mut Self::Connection) -> bool {
        false
    }

    /// A fresh channel for a client: of publish and subscribe, or a mailbox below `prefix`.
    fn channel(&self, _prefix: &str) -> String {
        subscription::channel()
    }

    /// Subscribes over a connection of its own. `None`: this source can never do so.
    fn subscribe(
        &self,
        _listener: Listener,
    ) -> impl Future<Output = RedisResult<Option<PubsubStream>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Waits until another server has taken the place of one to which connections lead, as others
    /// tell. A connection may not show it. Returns when the latest of those connections began.
    fn moved(&self) -> impl Future<Output = Moment> + Send {
        std::future::pending()
    }

    /// May its connections be given a name? Not those of a pool, whose owner decides what they
    /// send, nor one that stands for many servers.
    fn may_be_named(&self) -> bool {
        false
    }

    /// Does the source keep nothing of a runtime on which it connects, so that many may use it?
    const IS_PORTABLE: bool = false;
}

/// One server, whose address is known.
pub(crate) enum Direct {
    Server {
        info: Box<ConnectionInfo>,
        lookup: HostLookup,
    },
    /// The caller supplied the pool. Its connections have timeouts of their own, and it does not
    /// tell where they lead, so that none of them can subscribe.
    Pool(Pool),
}

impl Direct {
    pub(crate) fn to(info: ConnectionInfo) -> Self {
        Self::Server { info: Box::new(info), lookup: HostLookup::default() }
    }

    fn is_server(&self) -> bool {
        matches!(self, Self::Server { .. })
    }
}

impl Source for Direct {
    type Connection = MultiplexedConnection;

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        match self {
            Self::Server { info, lookup } => match dial::connect(info, lookup).await {
                // Boxed: it is seldom needed.
                Err(error) => Err(Box::pin(unasked::explained(info.addr(), lookup, error)).await),
                made => made,
            },
            // `create`, not `get`: an idle connection of the pool may belong to a runtime that has
            // ended, and checking it costs a round trip or, on a frozen server, a timeout each.
            Self::Pool(pool) => {
                let mut connection = Manager::create(pool.manager()).await?;
                connection.set_response_timeout(NO_LIMIT);
                Ok(connection)
            }
        }
    }

    fn has_ended(connection: &mut MultiplexedConnection) -> bool {
        ended::has_ended(connection)
    }

    fn channel(&self, prefix: &str) -> String {
        if self.is_server() { subscription::channel() } else { mailbox::channel(prefix) }
    }

    async fn subscribe(&self, listener: Listener) -> RedisResult<Option<PubsubStream>> {
        let Self::Server { info, lookup } = self else {
            return mailbox::subscribe(self.connect().await?, listener).await;
        };
        subscription::subscribe(dial::listen(info, lookup).await?, listener).await.map(Some)
    }

    fn may_be_named(&self) -> bool {
        self.is_server()
    }

    /// Those of a pool have a limit for each answer.
    fn has_timers(&self) -> bool {
        !self.is_server()
    }

    const IS_PORTABLE: bool = true;
}
