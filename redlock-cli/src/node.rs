//! One server, asked directly: for the commands that look at locks and do not take them.

use std::fmt;
use std::time::{Duration, Instant};

use redlock::__operator::{self as operator, InfoText, WholeCluster};
use redlock::deadpool_redis::redis::aio::{MultiplexedConnection, PubSub};
use redlock::deadpool_redis::redis::cluster::{ClusterClient, ClusterClientBuilder};
use redlock::deadpool_redis::redis::{
    self, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, Pipeline, RedisError,
    RedisResult, ServerError, ServerErrorKind, TlsCertificates, Value,
};
use redlock::{LockError, NodeError, NodeErrorKind, Tls};

use crate::failure::Failure;
use crate::servers::{Servers, Topology};

/// How long a connect or a reply may take.
const LIMIT: Duration = Duration::from_secs(5);
/// For how long the sentinels are taken to name the same master.
const NAMED: Duration = Duration::from_secs(1);

/// A server, or a whole cluster. It connects when it is asked first, and again after an error.
pub(crate) struct Node {
    name: String,
    place: Place,
    connection: Option<Connection>,
    /// Of a master that sentinels watch: where the connection leads, and when they were asked last.
    named: Option<(ConnectionAddr, Instant)>,
    /// It was asked whether it has all locks.
    is_checked: bool,
    /// Of a master of a cluster: the cluster, which finds a key that is moved to another master.
    cluster: Option<Box<Node>>,
}

enum Place {
    Server(Box<Client>),
    Sentinel { urls: Vec<String>, master: String, tls: Option<Tls> },
    Cluster { client: Box<ClusterClient>, seeds: Vec<Client> },
}

enum Connection {
    Server(MultiplexedConnection),
    Cluster(WholeCluster),
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Node {
    fn new(name: String, place: Place) -> Self {
        Self { name, place, connection: None, named: None, is_checked: false, cluster: None }
    }

    /// The independent masters of a group; or the one master that sentinels watch; or a cluster,
    /// which finds the server of each key.
    pub(crate) fn of_keys(servers: &Servers) -> Result<Vec<Self>, Failure> {
        Ok(match &servers.topology {
            Topology::Masters(urls) => Self::each(servers, urls)?,
            Topology::Sentinel { urls, master } => {
                let (urls, tls) = (urls.clone(), servers.tls.clone());
                let place = Place::Sentinel { urls, master: master.clone(), tls };
                let shown = master.rsplit_once('@').map_or(master.as_str(), |(_, name)| name);
                vec![Self::new(format!("sentinel {shown}"), place)]
            }
            Topology::Cluster(urls) => vec![Self::cluster(servers, urls)?],
        })
    }

    fn cluster(servers: &Servers, urls: &[String]) -> Result<Self, Failure> {
        let seed = |url: &String| servers.client(url).map(|(_, client)| client);
        let seeds = urls.iter().map(seed).collect::<Result<Vec<_>, _>>()?;
        let client = cluster_client(&seeds, servers.certificates()?).build();
        let client = Box::new(client.map_err(|error| Failure::usage(error.to_string()))?);
        Ok(Self::new("the cluster".to_owned(), Place::Cluster { client, seeds }))
    }

    /// The servers of these URLs, each by itself.
    pub(crate) fn each(servers: &Servers, urls: &[String]) -> Result<Vec<Self>, LockError> {
        let server = |url: &String| {
            let (name, client) = servers.client(url)?;
            Ok(Self::new(name, Place::Server(Box::new(client))))
        };
        urls.iter().map(server).collect()
    }

    /// One master of the cluster at these URLs.
    pub(crate) fn master(
        servers: &Servers,
        urls: &[String],
        (name, client): (String, Client),
    ) -> Result<Self, Failure> {
        let cluster = Some(Box::new(Self::cluster(servers, urls)?));
        Ok(Self { cluster, ..Self::new(name, Place::Server(Box::new(client))) })
    }

    /// The masters that this server of a cluster names: what to call each, and a client for it.
    pub(crate) async fn masters(&mut self) -> Result<Vec<(String, Client)>, NodeError> {
        let slots = self.query(redis::cmd("CLUSTER").arg("SLOTS")).await?;
        let nodes = match self.query::<String>(redis::cmd("CLUSTER").arg("NODES")).await {
            // Then it is not known which masters have no slots.
            Err(error) if is_refusal(&error) => String::new(),
            nodes => nodes?,
        };
        match &self.place {
            Place::Server(client) => operator::cluster_masters(&slots, &nodes, client),
            Place::Sentinel { .. } | Place::Cluster { .. } => Ok(Vec::new()),
        }
    }

    /// Does this server have all locks, as they are now? One of a cluster has a part of them, a
    /// sentinel none, and a replica that has lost its master those of earlier. It is taken to have
    /// all where its user may not ask.
    pub(crate) async fn check_mode(&mut self) -> Result<(), NodeError> {
        if !self.is_checked && !self.is_of_cluster() {
            let info = self.query::<InfoText>(&redis::cmd("INFO")).await;
            let InfoText(info) = match info {
                Err(error) if error.kind() == NodeErrorKind::NoPermission => InfoText::default(),
                info => info?,
            };
            operator::check_mode(&self.name, &info)?;
            // A replica may lose its master later.
            self.is_checked = !info.contains("role:slave");
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
        let outcome = self.asked(command).await;
        self.told(outcome)
    }

    /// Does the server take a command? It does, too, where its reply is that another master of the
    /// cluster has the key, or none: the rights of the user come first.
    pub(crate) async fn takes(&mut self, command: &Cmd) -> Result<(), NodeError> {
        match self.asked::<Value>(command).await {
            Err(error) if operator::is_elsewhere(&error) || is_unserved(&error) => Ok(()),
            outcome => self.told(outcome.map(drop)),
        }
    }

    async fn asked<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let asked = async {
            match self.connected().await? {
                Connection::Server(connection) => command.query_async(connection).await,
                Connection::Cluster(connection) => command.query_async(connection).await,
            }
        };
        let outcome = tokio::time::timeout(LIMIT * 2, asked).await;
        outcome.unwrap_or_else(|_| Err(no_reply()))
    }

    /// The replies to several commands, which are sent together: a server is most unlikely to serve
    /// others between them. In a cluster, a key whose slot is being moved is asked for at the
    /// master that has it, a moment later.
    pub(crate) async fn pipeline(&mut self, pipe: &Pipeline) -> Result<Vec<Value>, NodeError> {
        let asked = async {
            match self.connected().await? {
                Connection::Server(connection) => pipe.query_async(connection).await,
                Connection::Cluster(connection) => pipe.query_async(connection).await,
            }
        };
        let outcome = tokio::time::timeout(LIMIT * 2, asked).await;
        let outcome: RedisResult<Vec<Value>> = outcome.unwrap_or_else(|_| Err(no_reply()));
        let is_cluster = matches!(self.place, Place::Cluster { .. });
        if is_cluster && outcome.as_ref().is_err_and(operator::is_elsewhere) {
            // The client of a cluster sends all of them to where one of them belongs, and gives no
            // reply at all where the others do not belong there.
            let mut replies = Vec::new();
            for command in pipe.cmd_iter() {
                replies.push(self.reply(command).await?);
            }
            return Ok(replies);
        }
        let mut replies = self.told(outcome)?;
        if let Some(cluster) = &mut self.cluster {
            for (command, reply) in pipe.cmd_iter().zip(&mut replies) {
                if is_elsewhere(reply) {
                    *reply = cluster.reply(command).await?;
                }
            }
        }
        Ok(replies)
    }

    /// The reply to one command, as it stands among several: an error reply is a reply.
    async fn reply(&mut self, command: &Cmd) -> Result<Value, NodeError> {
        let outcome = match self.asked(command).await {
            Err(error) => ServerError::try_from(error).map(Value::ServerError),
            outcome => outcome,
        };
        self.told(outcome)
    }

    pub(crate) fn is_of_cluster(&self) -> bool {
        self.cluster.is_some() || matches!(self.place, Place::Cluster { .. })
    }

    pub(crate) fn is_of_sentinels(&self) -> bool {
        matches!(self.place, Place::Sentinel { .. })
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
        if self.connection.is_some() && self.was_replaced().await {
            self.connection = None;
        }
        if self.connection.is_none() {
            let (connection, address) = self.place.connect().await?;
            self.connection = Some(connection);
            self.named = address.map(|address| (address, Instant::now()));
        }
        self.connection.as_mut().ok_or_else(no_reply)
    }

    /// Do the sentinels name another master by now? A connection to the former one may stay for as
    /// long as that is cut off from them.
    async fn was_replaced(&mut self) -> bool {
        let (Place::Sentinel { urls, master, tls }, Some((leads_to, asked))) =
            (&self.place, &mut self.named)
        else {
            return false;
        };
        if asked.elapsed() < NAMED {
            return false;
        }
        *asked = Instant::now();
        let named = tokio::time::timeout(LIMIT / 2, watched(urls, master, tls.as_ref())).await;
        // Where they do not answer, the connection is as good as it was.
        let Ok(Ok(named)) = named else { return false };
        named.get_connection_info().addr() != leads_to
    }

    fn told<T>(&mut self, outcome: RedisResult<T>) -> Result<T, NodeError> {
        outcome.map_err(|error| {
            if error.is_io_error() || error.is_connection_dropped() || error.is_timeout() {
                self.connection = None;
            }
            if self.is_of_cluster() {
                operator::explain_in_cluster(&self.name, &error)
            } else {
                operator::explain(&self.name, &error)
            }
        })
    }
}

impl Place {
    /// Returns also where the connection leads, unless that is a whole cluster.
    async fn connect(&self) -> RedisResult<(Connection, Option<ConnectionAddr>)> {
        let client = match self {
            Self::Cluster { client, .. } => {
                let connection = WholeCluster::connect(client).await?;
                return Ok((Connection::Cluster(connection), None));
            }
            Self::Server(client) => (**client).clone(),
            Self::Sentinel { urls, master, tls } => watched(urls, master, tls.as_ref()).await?,
        };
        let address = client.get_connection_info().addr().clone();
        let made = tokio::time::timeout(LIMIT, operator::connect(&client)).await;
        let mut connection = made.unwrap_or_else(|_| Err(no_connection(&address)))?;
        connection.set_response_timeout(LIMIT);
        Ok((Connection::Server(connection), Some(address)))
    }

    /// A connection that listens; in a cluster, to the first server that answers.
    async fn listen(&self) -> RedisResult<PubSub> {
        match self {
            Self::Server(client) => client.get_async_pubsub().await,
            Self::Sentinel { urls, master, tls } => {
                watched(urls, master, tls.as_ref()).await?.get_async_pubsub().await
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

/// Does a server refuse a question? It may be a proxy that knows only those of clients.
fn is_refusal(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::NoPermission | NodeErrorKind::Refused)
}

/// The master that sentinels name now.
async fn watched(urls: &[String], master: &str, tls: Option<&Tls>) -> RedisResult<Client> {
    let found = operator::watched_master(urls, master, tls).await;
    found.map(|(_, client)| client).map_err(|error| std::io::Error::other(error.to_string()).into())
}

fn no_reply() -> RedisError {
    silence("no reply in time")
}

/// A server without TLS takes the beginning of a handshake for half a command, and waits.
fn no_connection(address: &ConnectionAddr) -> RedisError {
    let is_secure = matches!(address, ConnectionAddr::TcpTls { .. });
    let hint = if is_secure { " (does the server speak TLS at this port?)" } else { "" };
    silence(&format!("no connection in time{hint}"))
}

fn silence(told: &str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, told).into()
}

/// Has another master of the cluster the key, or will it have it?
fn is_elsewhere(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if operator::is_elsewhere(&error.clone().into()))
}

/// Has no master of the cluster the slot of the key? The cluster may serve the other slots.
fn is_unserved(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ClusterDown)
        && error.detail() == Some("Hash slot not served")
}

fn cluster_client(seeds: &[Client], certificates: Option<TlsCertificates>) -> ClusterClientBuilder {
    let infos = seeds.iter().map(|seed| seed.get_connection_info().clone());
    let builder = ClusterClientBuilder::new(infos)
        .retries(2)
        .connection_timeout(LIMIT)
        .response_timeout(LIMIT);
    // Those of the seeds are not those of the other servers.
    match certificates {
        Some(certificates) => builder.certs(certificates),
        None => builder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_at_a_watched_master_is_no_part_of_its_name() {
        for master in ["m", "redis://u:s3cret@m"] {
            let (urls, master) = (vec!["redis://a".to_owned()], master.to_owned());
            let topology = Topology::Sentinel { urls, master };
            let servers = Servers { topology, prefix: String::new(), tls: None, longest: None };
            let nodes = Node::of_keys(&servers).unwrap();
            assert_eq!(nodes.iter().map(Node::name).collect::<Vec<_>>(), ["sentinel m"]);
        }
    }

    #[test]
    fn a_handshake_without_an_answer_is_doubted() {
        for (url, is_doubted) in [("rediss://127.0.0.1:1", true), ("redis://127.0.0.1:1", false)] {
            let client = Client::open(url).unwrap();
            let told = no_connection(client.get_connection_info().addr());
            assert!(told.is_timeout(), "{told:?}");
            assert_eq!(told.to_string().contains("speak TLS"), is_doubted, "{told}");
        }
    }

    #[test]
    fn all_servers_of_a_cluster_are_reached_with_the_files_for_tls() {
        let seeds = [Client::open("rediss://127.0.0.1:1").unwrap()];
        let own = TlsCertificates { client_tls: None, root_cert: Some(Vec::new()) };
        let shown = |certificates| format!("{:?}", cluster_client(&seeds, certificates));
        assert_ne!(shown(Some(own)), shown(None));
    }
}
