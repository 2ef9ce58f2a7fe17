//! Where the connections of a node come from.

use std::time::Duration;

use deadpool::managed::Manager;
use deadpool_redis::Pool;
use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use deadpool_redis::redis::{Client, RedisResult};

/// Longer than any timeout of ours: the client's own, set by whoever made the pool, must not fire
/// before ours does.
pub(super) const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Makes connections. A pool is a source, never the place where connections are kept: they are
/// made on the background thread, whose runtime lives as long as the process, and stay there.
pub(crate) trait Source: Send + Sync + 'static {
    /// Clones share the socket.
    type Connection: ConnectionLike + Clone + Send + Sync + 'static;

    /// A new connection, logged in. Cancel safe: a connection half made is dropped.
    fn connect(&self) -> impl Future<Output = RedisResult<Self::Connection>> + Send;

    /// A connection to one server, which is nothing without it. Otherwise a connection leads to
    /// many, and serves the others while one of them is silent.
    const LEADS_TO_ONE: bool = true;

    /// Does the place of `key` answer, or any place at all?
    fn leads(
        _connection: &mut Self::Connection,
        _key: Option<&str>,
    ) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    /// A new connection that hears what is published. `None`: this source makes no such ones.
    fn subscribe(&self) -> impl Future<Output = RedisResult<Option<PubSub>>> + Send {
        std::future::ready(Ok(None))
    }

    /// It keeps nothing of a runtime on which it connects, and may be used on many.
    const IS_PORTABLE: bool = false;
}

/// One server, whose address is known.
pub(crate) struct Direct {
    pool: Pool,
    /// `None`: somebody else made the pool. Its connections have timeouts of their own, and where
    /// they lead is not told.
    client: Option<Client>,
}

impl Direct {
    pub(super) fn new(pool: Pool, client: Option<Client>) -> Self {
        Self { pool, client }
    }
}

impl Source for Direct {
    type Connection = MultiplexedConnection;

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // `create`, not `get`: an idle connection of the pool may be driven by a runtime that is
        // gone, and checking it costs a round trip or, on a frozen server, a timeout each.
        let mut connection = Manager::create(self.pool.manager()).await?;
        if self.client.is_none() {
            connection.set_response_timeout(NO_LIMIT);
        }
        Ok(connection)
    }

    async fn subscribe(&self) -> RedisResult<Option<PubSub>> {
        match &self.client {
            Some(client) => client.get_async_pubsub().await.map(Some),
            None => Ok(None),
        }
    }

    const IS_PORTABLE: bool = true;
}
