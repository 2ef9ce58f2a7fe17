//! The source of connections to a cluster, whose client library finds the master of each key.

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
use tokio::time::timeout;

use super::cluster_connection::ShardsConnection;
use super::masters;
use crate::backend::redis::connection::connect::{ConnectAttempt, Race};
use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::backend::redis::connection::source::CONNECT;
use crate::backend::redis::connection::{Source, address, dial, unasked};
use crate::backend::redis::pubsub::{Listener, PubsubStream, silent};
use crate::backend::{Tls, tls};
use crate::error::LockError;

/// How often the client library sends a command again that was refused, or was not sent: twice,
/// since a command for a master that is gone goes to another server first. After each failure the
/// client library examines the whole cluster anew, which delays the commands of all callers.
const RETRIES: u32 = 2;
const SHORTEST_PAUSE_MS: u64 = 10;
const LONGEST_PAUSE_MS: u64 = 100;
const CLIENT_CONNECT: Duration = Duration::from_secs(1);

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

impl Shards {
    /// The cluster to which these servers belong, and what errors call it.
    pub(super) fn to(
        urls: &[String],
        tls: Option<&Tls>,
        reply_timeout: Duration,
    ) -> Result<(String, Self), LockError> {
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
            .response_timeout(longest_reply(reply_timeout))
            .overall_response_timeout(None)
            .tcp_settings(address::tcp_settings())
            .async_dns_resolver(lookup.clone());
        let client = tls::certify(client, tls)?
            .build()
            .map_err(|error| LockError::config(format!("{name}: {error}")))?;
        Ok((name, Self::Client { client: Box::new(client), seeds, lookup }))
    }
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

/// When the client library gives up a command that is not answered. Our own bounds, which begin
/// earlier, have ended by then: they are `reply_timeout` at most, or `CONNECT` for a first check.
fn longest_reply(reply_timeout: Duration) -> Duration {
    reply_timeout.max(CONNECT)
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
    use super::*;

    #[test]
    fn the_client_library_waits_for_an_answer_as_long_as_a_caller_may() {
        let urls = ["redis://127.0.0.1".to_owned()];
        for (reply_timeout, bound) in [(1, 10), (10, 10), (60, 60)] {
            let (_, shards) = Shards::to(&urls, None, Duration::from_secs(reply_timeout)).unwrap();
            let Shards::Client { client, .. } = shards else { unreachable!() };
            let client = format!("{client:?}");
            assert!(client.contains(&format!(" response_timeout: Some({bound}s)")), "{client}");
        }
    }

    #[test]
    fn a_redirection_is_not_the_answer_of_the_master() {
        for kind in [ServerErrorKind::Moved, ServerErrorKind::ClusterDown] {
            assert!(!is_of_master(&RedisError::from((kind.into(), "elsewhere"))));
        }
        assert!(!is_of_master(&RedisError::from((ErrorKind::Io, "broken"))));
        assert!(is_of_master(&RedisError::from((ErrorKind::Extension, "WRONGTYPE"))));
        let loading = RedisError::from((ServerErrorKind::BusyLoading.into(), "soon"));
        assert!(!is_of_master(&loading), "it serves no key yet");
        for kind in [ServerErrorKind::NoPerm, ServerErrorKind::ResponseError] {
            assert!(is_of_master(&RedisError::from((kind.into(), "refused"))));
        }
    }
}
