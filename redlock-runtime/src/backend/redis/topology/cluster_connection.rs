//! Connections of a cluster's client on which a script leaves once, unless it was refused.
//!
//! The client library follows redirects, waits for a slot that moves, and makes broken connections
//! anew. It connects to the single servers with a type of ours, which keeps it from sending a
//! script again whose outcome is unknown: only the owner of the script can tell what the second
//! answer means.

use deadpool_redis::cluster::ClusterConnection;
use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::cluster_async::Connect;
use deadpool_redis::redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Cmd, IntoConnectionInfo, Pipeline, RedisFuture, RedisResult, Value,
};

use super::sent_scripts::{self, SentScript, script_key};

/// A connection to one server of a cluster. Clones share the socket.
#[derive(Clone)]
pub(crate) struct ServerConnection(MultiplexedConnection);

impl Connect for ServerConnection {
    fn connect_with_config<'a, T>(
        address: T,
        config: AsyncConnectionConfig,
    ) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        let connecting = MultiplexedConnection::connect_with_config(address, config);
        Box::pin(async { Ok(Self(connecting.await?)) })
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            sent_scripts::leaves(command)?;
            let answer = self.0.req_packed_command(command).await;
            sent_scripts::answered(command, &answer);
            answer
        })
    }

    /// The client library alone sends pipelines.
    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// A connection to a whole cluster.
#[derive(Clone)]
pub(crate) enum ShardsConnection {
    Own(ClusterConnection<ServerConnection>),
    /// That of a pool, on which the client library sends a command again by itself.
    Pooled(ClusterConnection),
}

impl ShardsConnection {
    /// Sends a command of which it does not matter how often it is carried out.
    pub(crate) async fn route(&mut self, command: Cmd, place: RoutingInfo) -> RedisResult<Value> {
        match self {
            Self::Own(connection) => connection.route_command(command, place).await,
            Self::Pooled(connection) => connection.route_command(command, place).await,
        }
    }
}

/// Sends a script to the master of its first key.
async fn send(
    connection: &mut ClusterConnection<ServerConnection>,
    script: Cmd,
    master: Route,
) -> RedisResult<Value> {
    let place = RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(master));
    let sent = SentScript::new(&script);
    connection.route_command(script, place).await.map_err(|error| sent.meant(error))
}

impl ConnectionLike for ShardsConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Own(connection) => match script_key(command) {
                Some(key) => {
                    let master = Route::with_key(key, SlotAddr::Master);
                    Box::pin(send(connection, command.clone(), master))
                }
                // It changes nothing, and may be carried out twice.
                None => connection.req_packed_command(command),
            },
            Self::Pooled(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Own(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Pooled(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        0
    }
}
