//! Connections of a cluster's client on which a script leaves once, unless it was refused.
//!
//! The client library follows redirects, waits for a slot that moves, and makes broken connections
//! anew. It connects to the single servers with a type of ours, which keeps it from sending a
//! script again whose outcome is unknown: only the owner of the script can tell what the second
//! answer means.

use std::time::Duration;

use deadpool_redis::cluster::ClusterConnection;
use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::cluster_async::Connect;
use deadpool_redis::redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use deadpool_redis::redis::{
    self, Arg, AsyncConnectionConfig, Cmd, IntoConnectionInfo, Pipeline, RedisFuture, RedisResult,
    Value,
};

use super::sent_scripts::{self, SentScript, script_key};
use crate::backend::redis::pubsub::broken;

/// A connection to one server of a cluster. Clones share the socket.
#[derive(Clone)]
pub(crate) struct ServerConnection {
    connection: MultiplexedConnection,
    /// `ASKING` leaves together with the next command of this clone. It is meant for that one
    /// alone, and by itself would be taken by whichever command the server reads next.
    asks: bool,
}

/// How long the client library waits for each answer when it examines the cluster. It serves nobody
/// meanwhile, and a server may be frozen.
const CLIENT_REPLY: Duration = Duration::from_secs(5);

/// What makes a server carry out one command of a slot that is on its way to it.
const ASKING: &str = "ASKING";

impl ServerConnection {
    /// Sends a command by which the client library examines the cluster.
    async fn examine(&self, command: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        connection.set_response_timeout(CLIENT_REPLY);
        connection.req_packed_command(command).await
    }

    async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut pipeline = redis::pipe();
        pipeline.cmd(ASKING).add_command(command.clone());
        let answers = self.connection.req_packed_commands(&pipeline, 1, 1).await?;
        answers.into_iter().next().ok_or_else(broken)
    }
}

impl Connect for ServerConnection {
    fn connect_with_config<'a, T>(
        address: T,
        config: AsyncConnectionConfig,
    ) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        let connecting = MultiplexedConnection::connect_with_config(address, config);
        Box::pin(async { Ok(Self { connection: connecting.await?, asks: false }) })
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            if command.args_iter().eq([Arg::Simple(ASKING.as_bytes())]) {
                self.asks = true;
                return Ok(Value::Okay);
            }
            if matches!(command.args_iter().next(), Some(Arg::Simple(b"CLUSTER" | b"PING"))) {
                return self.examine(command).await;
            }
            sent_scripts::leaves(command)?;
            let answer = if std::mem::take(&mut self.asks) {
                self.ask(command).await
            } else {
                self.connection.req_packed_command(command).await
            };
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
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::Instant;

    use super::super::fake_server::fake_server;
    use super::*;

    #[tokio::test]
    async fn a_frozen_server_keeps_the_client_library_for_less_time_than_a_caller_may_wait() {
        let answer = |command: &str| {
            let answer = if command.contains("CLIENT") { "+OK\r\n" } else { "" };
            answer.to_owned()
        };
        let longest = 12 * CLIENT_REPLY;
        let client = redis::Client::open(("127.0.0.1", fake_server(answer).await)).unwrap();
        let info = client.get_connection_info().clone();
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(longest));
        let mut connection = ServerConnection::connect_with_config(info, config).await.unwrap();
        tokio::time::pause();
        for (words, bound) in [
            (&["PING"][..], CLIENT_REPLY),
            (&["CLUSTER", "SLOTS"], CLIENT_REPLY),
            (&["EVALSHA", "digest", "1", "k"], longest),
            (&["GET", "k"], longest),
        ] {
            let command = Cmd::new().arg(words).take();
            let begun = Instant::now();
            let error = connection.req_packed_command(&command).await.unwrap_err();
            assert!(error.is_timeout(), "{words:?}: {error}");
            assert_eq!(begun.elapsed().as_secs(), bound.as_secs(), "{words:?}");
        }
    }

    /// As the client library follows a redirect to a slot that is being moved.
    #[tokio::test]
    async fn what_another_caller_sends_does_not_take_the_asking_of_a_command() {
        let asked = Arc::new(AtomicBool::new(false));
        let answer = move |command: &str| {
            let was_asked = asked.swap(command.contains(ASKING), Ordering::Relaxed);
            let reply = if was_asked { "$5\r\nasked" } else { "+OK" };
            format!("{reply}\r\n")
        };
        let client = redis::Client::open(("127.0.0.1", fake_server(answer).await)).unwrap();
        let info = client.get_connection_info().clone();
        let connection = ServerConnection::connect_with_config(info, AsyncConnectionConfig::new());
        let (mut asking, get) = (connection.await.unwrap(), redis::cmd("GET").arg("k").take());
        let mut other = asking.clone();
        asking.req_packed_command(&redis::cmd(ASKING)).await.unwrap();
        let okay = Value::Okay;
        assert_eq!(other.req_packed_command(&get).await.unwrap(), okay);
        let reply = asking.req_packed_command(&get).await.unwrap();
        assert_eq!(reply, Value::BulkString(b"asked".to_vec()));
        assert_eq!(asking.req_packed_command(&get).await.unwrap(), okay, "it holds for one");
    }
}
