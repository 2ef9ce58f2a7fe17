//! A Redis Cluster: one client of many servers, each of which has its part of the keys.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Manager as _;
use deadpool_redis::cluster::{ClusterClient, ClusterClientBuilder, Pool};
use deadpool_redis::redis;
use deadpool_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use deadpool_redis::redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value,
};
use tokio::time::{Instant, timeout};

use super::cluster_connection::ShardsConnection;
use super::last_checks::LastChecks;
use super::masters;
use crate::backend::redis::connection::connect::{ConnectAttempt, Race};
use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::backend::redis::connection::{SharedConnection, Source, address, dial, unasked};
use crate::backend::redis::node::RedisNode;
use crate::backend::redis::node_core::{NodeCore, NodeOptions};
use crate::backend::redis::pubsub::{Listener, PubsubStream, silent};
use crate::backend::{
    Abilities, Acquired, Claim, Fault, Found, LockBackend, Release, Reply, Tls, tls,
};
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::shield::tell;
use crate::together::together;

/// How often the client library sends a command again that was refused, or was not sent: twice,
/// since a command for a master that is gone goes to another server first. After each failure the
/// client library examines the whole cluster anew, which delays the commands of all callers.
const RETRIES: u32 = 2;
const SHORTEST_PAUSE_MS: u64 = 10;
const LONGEST_PAUSE_MS: u64 = 100;
/// Bounds the commands that the client library sends by itself to a server that may be frozen. Our
/// own commands end sooner, by our own bounds.
const CLIENT_REPLY: Duration = Duration::from_secs(5);
const CLIENT_CONNECT: Duration = Duration::from_secs(1);

/// The locks of a cluster. The client library finds the master of each key, and follows it when it
/// moves.
pub(crate) struct RedisCluster {
    pub(super) node: RedisNode<Shards>,
    /// The prefix of the locks' keys.
    pub(super) prefix: Arc<str>,
    pub(super) checks: LastChecks,
    /// For checks of the masters of a pool's cluster. A check of one that is down makes the client
    /// library connect to all of them anew, and other commands on that connection wait.
    pub(super) examining: SharedConnection<Shards>,
}

impl fmt::Debug for RedisCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl RedisCluster {
    pub(crate) fn open(
        urls: &[String],
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let seeds =
            urls.iter().map(|url| address::parse(url, tls)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = seeds.first() else {
            return Err(LockError::config("`cluster` names no server"));
        };
        if let Some(seed) = seeds.iter().find(|seed| seed.redis_settings().db() != 0) {
            let name = address::name(seed);
            return Err(LockError::config(format!(
                "`{name}` names a database, and a Redis Cluster has no other one than 0: leave \
                 the number out"
            )));
        }
        let name = format!("cluster {}", address::name(first));
        let lookup = HostLookup::default();
        let client = ClusterClientBuilder::new(seeds.clone())
            .retries(RETRIES)
            .min_retry_wait(SHORTEST_PAUSE_MS)
            .max_retry_wait(LONGEST_PAUSE_MS)
            .connection_timeout(CLIENT_CONNECT)
            .response_timeout(CLIENT_REPLY)
            .overall_response_timeout(None)
            .tcp_settings(address::tcp_settings())
            .async_dns_resolver(lookup.clone());
        let client = tls::certify(client, tls)?
            .build()
            .map_err(|error| LockError::config(format!("{name}: {error}")))?;
        let shards = Shards::Client { client: Box::new(client), seeds, lookup };
        Ok(Self::of(name, shards, options))
    }

    pub(crate) fn from_pool(pool: Pool, options: NodeOptions) -> Self {
        Self::of("cluster pool".to_owned(), Shards::Pool(pool), options)
    }

    fn of(name: String, shards: Shards, options: NodeOptions) -> Self {
        let prefix = Arc::clone(&options.prefix);
        let node = RedisNode::new(name, shards, options);
        let examining = SharedConnection::new(Arc::clone(&node.route.core.source));
        Self { node, prefix, checks: LastChecks::default(), examining }
    }

    pub(super) fn core(&self) -> &NodeCore<Shards> {
        &self.node.route.core
    }
}

impl RedisCluster {
    /// Renews leases of one slot together. If that fails and there is time left, renews each by
    /// itself: a slot that is being moved serves its keys one by one, and one refused key must not
    /// keep the others from being renewed.
    fn renew_slot<'a>(&'a self, claims: &'a [Claim], end: Instant) -> NodeList<'a> {
        Box::pin(async move {
            let left = || end.saturating_duration_since(Instant::now());
            if claims.len() > 1 {
                match self.node.renew(claims, left()).await {
                    Ok(found) => return found.into_iter().map(Ok).collect(),
                    Err(fault) if left().is_zero() => return vec![Err(fault); claims.len()],
                    Err(_) => {}
                }
            }
            let calls = claims.chunks(1).map(|claim| self.node.renew(claim, left()));
            let answers = together(calls.collect()).await.into_iter();
            answers.map(|answer| answer.map(|found| found.first().copied().flatten())).collect()
        })
    }
}

/// The results of renewing several leases.
type NodeList<'a> = Pin<Box<dyn Future<Output = Vec<Result<Option<Found>, Fault>>> + Send + 'a>>;

impl LockBackend for RedisCluster {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.node.acquire(claim, within)
    }

    /// The leases of each slot share a call, as a script may use the keys of one slot only; all of
    /// the calls are sent at once.
    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let mut slots: HashMap<u16, (Vec<usize>, Vec<Claim>)> = HashMap::new();
            for (position, claim) in claims.iter().enumerate() {
                let slot = slots.entry(claim.key.slot()).or_default();
                slot.0.push(position);
                slot.1.push(claim.clone());
            }
            let calls = slots.values().map(|(_, claims)| self.renew_slot(claims, end));
            let answers: Vec<_> = together(calls.collect()).await.into_iter().flatten().collect();
            let is_any = answers.iter().any(Result::is_ok);
            let positions = slots.values().flat_map(|(positions, _)| positions);
            let mut found = vec![None; claims.len()];
            for (answer, position) in answers.into_iter().zip(positions) {
                match answer {
                    Ok(answer) => found[*position] = answer,
                    // The results of the other slots must not get lost.
                    Err(fault) if is_any => {
                        tell!(debug, nodes = ?fault.nodes, "a part of the cluster is silent");
                    }
                    Err(fault) => return Err(fault),
                }
            }
            Ok(found)
        })
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        self.node.release(release, within)
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.node.raise(claim, fencing_token, within)
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let end = Instant::now() + within;
            match self.node.verify(within).await {
                Ok(()) => Ok(()),
                Err(fault) => Err(self.explained(fault, end).await),
            }
        })
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { health: Some(self), ..self.node.abilities() }
    }
}

/// The source of connections to a whole cluster.
pub(crate) enum Shards {
    /// Made by this library: the manager of the pool has no options.
    Client {
        client: Box<ClusterClient>,
        seeds: Vec<ConnectionInfo>,
        lookup: HostLookup,
    },
    Pool(Pool),
}

impl Source for Shards {
    type Connection = ShardsConnection;

    const LEADS_TO_ONE: bool = false;

    /// While a connection is made anew, commands go to other servers, to be redirected. Those
    /// connections may be broken as well, as after a time in which nothing was sent.
    const REPEATS: u32 = 8;

    async fn connect(&self) -> RedisResult<ShardsConnection> {
        match self {
            Self::Client { client, seeds, lookup } => {
                found(seeds, lookup).await?;
                for seed in seeds {
                    dial::prepare(seed.addr());
                }
                match client.get_async_generic_connection().await {
                    // Boxed: it is seldom needed.
                    Err(error) if error.is_io_error() => {
                        Err(Box::pin(failure(seeds, lookup, error)).await)
                    }
                    made => made.map(ShardsConnection::Own),
                }
            }
            Self::Pool(pool) => pool.manager().create().await.map(ShardsConnection::Pooled),
        }
    }

    fn repeats_unseen(&self) -> bool {
        matches!(self, Self::Pool(_))
    }

    /// Where the client library cannot reach the master of a key, it asks any other server. Such a
    /// server answers `PING`, but not a command about the key.
    async fn leads(connection: &mut ShardsConnection, key: Option<&str>) -> bool {
        let (command, place) = if let Some(key) = key {
            let master = Route::with_key(key, SlotAddr::Master);
            let place = RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(master));
            (redis::cmd("GET").arg(key).take(), place)
        } else {
            let all = (MultipleNodeRoutingInfo::AllNodes, Some(ResponsePolicy::OneSucceeded));
            (redis::cmd("PING"), RoutingInfo::MultiNode(all))
        };
        let answer = connection.route(command, place).await;
        answer.and_then(Value::extract_error).map_or_else(|error| is_of_master(&error), |_| true)
    }

    async fn subscribe(&self, listener: Listener) -> RedisResult<Option<PubsubStream>> {
        let Self::Client { seeds, lookup, .. } = self else { return Ok(None) };
        masters::subscribe(seeds, lookup, listener).await.map(Some)
    }
}

/// Waits until the address of one of the first servers is known. The client library has less time
/// for that than a name server may need, and then finds the answer.
async fn found(seeds: &[ConnectionInfo], lookup: &HostLookup) -> RedisResult<()> {
    let attempt = |seed| -> ConnectAttempt<'_, ()> {
        let seed: &ConnectionInfo = seed;
        Box::pin(async move {
            match seed.addr() {
                ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                    lookup.addresses(host, *port).await.map(drop)
                }
                _ => Ok(()),
            }
        })
    };
    Race::to_servers(seeds.iter().map(attempt)).won().await
}

/// Why none of the first servers can be connected to. The client library tells the error of the
/// last one only, and the errors of the others may be different: so each is asked by itself.
async fn failure(seeds: &[ConnectionInfo], lookup: &HostLookup, told: RedisError) -> RedisError {
    let attempt = |seed| -> ConnectAttempt<'_, ()> {
        let seed: &ConnectionInfo = seed;
        Box::pin(async move {
            match timeout(CLIENT_CONNECT, dial::connect(seed, lookup)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(unasked::explained(seed.addr(), lookup, error).await),
                Err(_) => Err(silent()),
            }
        })
    };
    // One that can be connected to now was not asked, or did not tell of a cluster.
    Race::to_servers(seeds.iter().map(attempt)).won().await.err().unwrap_or(told)
}

/// Is this the answer of a master to a command about a key of its own? A refusal is an answer as
/// well.
fn is_of_master(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, TryAgain};
    match error.kind() {
        ErrorKind::Server(Moved | Ask | TryAgain | ClusterDown | MasterDown | BusyLoading) => false,
        ErrorKind::Server(_) | ErrorKind::Extension => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_server::fake_server;
    use super::*;
    use crate::backend::redis::commands::is_passing;
    use crate::backend::redis::connection::Direct;
    use crate::error::NodeErrorKind;

    #[test]
    fn what_a_cluster_says_while_it_changes_is_not_final() {
        assert!(is_passing::<Shards>(NodeErrorKind::Cluster));
        assert!(!is_passing::<Shards>(NodeErrorKind::NoPermission));
        assert!(!is_passing::<Direct>(NodeErrorKind::Cluster));
    }

    #[test]
    fn a_redirection_is_not_the_answer_of_the_master() {
        for kind in [ServerErrorKind::Moved, ServerErrorKind::ClusterDown] {
            assert!(!is_of_master(&RedisError::from((kind.into(), "elsewhere"))));
        }
        assert!(!is_of_master(&RedisError::from((ErrorKind::Io, "broken"))));
        assert!(is_of_master(&RedisError::from((ErrorKind::Extension, "WRONGTYPE"))));
    }

    /// What a cluster fails with whose first servers are at these ports.
    async fn failed_with(scheme: &str, ports: [u16; 2]) -> (NodeErrorKind, bool, String) {
        let urls = ports.map(|port| format!("{scheme}://u:p@127.0.0.1:{port}"));
        let cluster = RedisCluster::open(&urls, None, NodeOptions::default()).unwrap();
        let fault = cluster.verify(Duration::from_secs(60)).await.unwrap_err();
        (fault.nodes[0].kind(), fault.is_final, fault.nodes_text())
    }

    /// Another one may come back.
    #[tokio::test]
    async fn a_login_that_one_seed_refuses_is_final_only_if_all_refuse_it() {
        let answer = |command: &str| {
            let refused = command.contains("AUTH");
            if refused { "-WRONGPASS no such user\r\n" } else { "+OK\r\n" }.to_owned()
        };
        let refusing = [fake_server(answer).await, fake_server(answer).await];
        let (kind, is_final, text) = failed_with("redis", refusing).await;
        assert!(is_final && kind == NodeErrorKind::Authentication, "{text}");
        // Nothing listens at the port 1.
        for ports in [[refusing[0], 1], [1, refusing[0]]] {
            let (kind, is_final, text) = failed_with("redis", ports).await;
            assert!(!is_final && kind == NodeErrorKind::Unreachable, "{text}");
            let advice = "refuses this user or password";
            assert!(text.contains("another server refuses") && text.contains(advice), "{text}");
        }
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn seeds_that_do_not_speak_tls_are_told_as_such() {
        let server = async || {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                while let Ok((mut socket, _)) = listener.accept().await {
                    let _ =
                        tokio::io::AsyncWriteExt::write_all(&mut socket, b"-ERR no TLS\r\n").await;
                }
            });
            port
        };
        let (kind, is_final, text) = failed_with("rediss", [server().await, server().await]).await;
        assert!(is_final && kind == NodeErrorKind::Tls, "{text}");
    }

    #[test]
    fn a_cluster_without_a_server_says_so() {
        let error = RedisCluster::open(&[], None, NodeOptions::default()).unwrap_err().to_string();
        assert!(error.contains("`cluster` names no server"), "{error}");
    }
}
