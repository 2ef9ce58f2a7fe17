//! One server, asked directly: for the commands that look at locks and do not take them.

use std::fmt;
use std::time::Duration;

use redlock::__operator as operator;
use redlock::deadpool_redis::redis::aio::{MultiplexedConnection, PubSub};
use redlock::deadpool_redis::redis::cluster::{ClusterClient, ClusterClientBuilder};
use redlock::deadpool_redis::redis::cluster_async::ClusterConnection;
use redlock::deadpool_redis::redis::{
    self, AsyncConnectionConfig, Client, Cmd, ConnectionAddr, FromRedisValue, Pipeline, RedisError,
    RedisResult, Value,
};
use redlock::{LockError, NodeError, NodeErrorKind};

use crate::failure::Failure;
use crate::servers::{Servers, Topology};

/// How long a connect or a reply may take.
const LIMIT: Duration = Duration::from_secs(5);

/// A server, or a whole cluster. It connects when it is asked first, and again after an error.
pub(crate) struct Node {
    name: String,
    place: Place,
    connection: Option<Connection>,
    /// It was asked whether it has all locks.
    is_checked: bool,
}

enum Place {
    Server(Box<Client>),
    Sentinel { urls: Vec<String>, master: String },
    Cluster { client: Box<ClusterClient>, seeds: Vec<Client> },
}

enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Node {
    fn new(name: String, place: Place) -> Self {
        Self { name, place, connection: None, is_checked: false }
    }

    /// The independent masters of a group; or the one master that sentinels watch; or a cluster,
    /// which finds the server of each key.
    pub(crate) fn of_keys(servers: &Servers) -> Result<Vec<Self>, Failure> {
        Ok(match &servers.topology {
            Topology::Masters(urls) => {
                let server = |url: &String| {
                    let (name, client) = servers.client(url)?;
                    Ok(Self::new(name, Place::Server(Box::new(client))))
                };
                urls.iter().map(server).collect::<Result<_, LockError>>()?
            }
            Topology::Sentinel { urls, master } => {
                let place = Place::Sentinel { urls: urls.clone(), master: master.clone() };
                let shown = master.rsplit_once('@').map_or(master.as_str(), |(_, name)| name);
                vec![Self::new(format!("sentinel {shown}"), place)]
            }
            Topology::Cluster(urls) => {
                let seed = |url: &String| servers.client(url).map(|(_, client)| client);
                let seeds = urls.iter().map(seed).collect::<Result<Vec<_>, _>>()?;
                let infos = seeds.iter().map(|seed| seed.get_connection_info().clone());
                let client = ClusterClientBuilder::new(infos)
                    .retries(2)
                    .connection_timeout(LIMIT)
                    .response_timeout(LIMIT)
                    .build()
                    .map_err(|error| Failure::usage(error.to_string()))?;
                let place = Place::Cluster { client: Box::new(client), seeds };
                vec![Self::new("the cluster".to_owned(), place)]
            }
        })
    }

    /// Every server that has keys of its own: of a cluster all masters.
    pub(crate) async fn of_servers(servers: &Servers) -> Result<Vec<Self>, Failure> {
        let Topology::Cluster(urls) = &servers.topology else { return Self::of_keys(servers) };
        let mut failed = None;
        for url in urls {
            let (name, client) = servers.client(url)?;
            let mut seed = Self::new(name, Place::Server(Box::new(client.clone())));
            match seed.query(redis::cmd("CLUSTER").arg("SLOTS")).await {
                Ok(slots) => return masters(&slots, &client),
                Err(error) => failed = Some(error),
            }
        }
        let message = failed.map_or_else(String::new, |error: NodeError| error.to_string());
        Err(Failure::unavailable(message))
    }

    /// Does this server have all locks? One of a cluster has a part of them, and a sentinel none.
    /// It is taken to have all where its user may not ask.
    pub(crate) async fn check_mode(&mut self) -> Result<(), NodeError> {
        if !self.is_checked {
            let info = self.query::<String>(redis::cmd("INFO").arg("server")).await;
            let info = match info {
                Err(error) if error.kind() == NodeErrorKind::NoPermission => String::new(),
                info => info?,
            };
            operator::check_mode(&self.name, &info)?;
            self.is_checked = true;
        }
        Ok(())
    }

    /// The error of a server that is still being asked.
    pub(crate) fn silence(name: &str) -> NodeError {
        operator::explain(name, &no_reply())
    }

    /// The same, where its answer is no longer waited for. It connects again when it is asked next.
    pub(crate) fn give_up(&mut self) -> NodeError {
        self.connection = None;
        Self::silence(&self.name)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The reply to one command.
    pub(crate) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, NodeError> {
        let asked = async {
            match self.connected().await? {
                Connection::Server(connection) => command.query_async(connection).await,
                Connection::Cluster(connection) => command.query_async(connection).await,
            }
        };
        let outcome = tokio::time::timeout(LIMIT * 2, asked).await;
        self.told(outcome.unwrap_or_else(|_| Err(no_reply())))
    }

    /// The replies to several commands.
    pub(crate) async fn pipeline(&mut self, pipe: &Pipeline) -> Result<Vec<Value>, NodeError> {
        let asked = async {
            match self.connected().await? {
                Connection::Server(connection) => pipe.query_async(connection).await,
                Connection::Cluster(connection) => pipe.query_async(connection).await,
            }
        };
        let outcome = tokio::time::timeout(LIMIT * 2, asked).await;
        self.told(outcome.unwrap_or_else(|_| Err(no_reply())))
    }

    /// Subscribes to a channel for a moment, over a connection of its own.
    pub(crate) async fn subscribe(&mut self, channel: &str) -> Result<(), NodeError> {
        let asked = async { self.place.listen().await?.subscribe(channel).await };
        let outcome = tokio::time::timeout(LIMIT * 2, asked).await;
        self.told(outcome.unwrap_or_else(|_| Err(no_reply())))
    }

    /// One of the replies to several commands.
    pub(crate) fn read<T: FromRedisValue>(&mut self, reply: &Value) -> Result<T, NodeError> {
        let reply = reply.clone().extract_error();
        self.told(reply.and_then(|reply| Ok(redis::from_redis_value(reply)?)))
    }

    async fn connected(&mut self) -> RedisResult<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(self.place.connect().await?);
        }
        self.connection.as_mut().ok_or_else(no_reply)
    }

    fn told<T>(&mut self, outcome: RedisResult<T>) -> Result<T, NodeError> {
        outcome.map_err(|error| {
            if error.is_io_error() || error.is_connection_dropped() || error.is_timeout() {
                self.connection = None;
            }
            operator::explain(&self.name, &error)
        })
    }
}

impl Place {
    async fn connect(&self) -> RedisResult<Connection> {
        let settings = AsyncConnectionConfig::new()
            .set_response_timeout(Some(LIMIT))
            .set_connection_timeout(Some(LIMIT));
        let client = match self {
            Self::Cluster { client, .. } => {
                return client.get_async_connection().await.map(Connection::Cluster);
            }
            Self::Server(client) => (**client).clone(),
            Self::Sentinel { urls, master } => watched(urls, master).await?,
        };
        let connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
        Ok(Connection::Server(connection))
    }

    /// A connection that listens; in a cluster, to the first server that answers.
    async fn listen(&self) -> RedisResult<PubSub> {
        match self {
            Self::Server(client) => client.get_async_pubsub().await,
            Self::Sentinel { urls, master } => {
                watched(urls, master).await?.get_async_pubsub().await
            }
            Self::Cluster { seeds, .. } => {
                let mut outcome = Err(no_reply());
                for seed in seeds {
                    outcome = seed.get_async_pubsub().await;
                    if outcome.is_ok() {
                        break;
                    }
                }
                outcome
            }
        }
    }
}

/// The master that sentinels name now.
async fn watched(urls: &[String], master: &str) -> RedisResult<Client> {
    let found = operator::watched_master(urls, master).await;
    found.map(|(_, client)| client).map_err(|error| std::io::Error::other(error.to_string()).into())
}

fn no_reply() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "no reply in time").into()
}

/// The masters in a reply to `CLUSTER SLOTS`, with the settings of the server that gave it.
fn masters(slots: &Value, seed: &Client) -> Result<Vec<Node>, Failure> {
    let malformed = || Failure::unavailable("CLUSTER SLOTS has an unknown reply");
    let ranges: Vec<Vec<Value>> =
        redis::from_redis_value(slots.clone()).map_err(|_| malformed())?;
    let mut nodes: Vec<Node> = Vec::new();
    for range in ranges {
        let master = range.into_iter().nth(2).ok_or_else(malformed)?;
        let Value::Array(place) = master else { return Err(malformed()) };
        let mut place = place.into_iter();
        let (Some(host), Some(Value::Int(port))) = (place.next(), place.next()) else {
            return Err(malformed());
        };
        let host: Option<String> = redis::from_redis_value(host).map_err(|_| malformed())?;
        let info = seed.get_connection_info().clone();
        let addr = moved(info.addr(), host, u16::try_from(port).map_err(|_| malformed())?);
        let name = format!("redis://{addr}");
        if nodes.iter().all(|node| node.name != name) {
            let client = Client::open(info.set_addr(addr))
                .map_err(|error| Failure::usage(error.to_string()))?;
            nodes.push(Node::new(name, Place::Server(Box::new(client))));
        }
    }
    Ok(nodes)
}

/// Another server, reached in the same way. A server that does not know its own name is the one
/// that was asked.
fn moved(seed: &ConnectionAddr, host: Option<String>, port: u16) -> ConnectionAddr {
    let host = host.filter(|host| !host.is_empty() && host != "?");
    match seed.clone() {
        ConnectionAddr::TcpTls { host: own, insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.unwrap_or(own), port, insecure, tls_params }
        }
        ConnectionAddr::Tcp(own, _) => ConnectionAddr::Tcp(host.unwrap_or(own), port),
        other => other,
    }
}
