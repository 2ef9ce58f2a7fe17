//! A Redis Cluster: one client of many servers, each of which has its part of the keys.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use deadpool::managed::Manager as _;
use deadpool_redis::cluster::{ClusterClient, ClusterClientBuilder, ClusterConnection, Pool};
use deadpool_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::{self, RedisResult, Value};

use super::address;
use super::node::{NodeOptions, RedisNode};
use super::source::Source;
use crate::backend::{Acquired, Backend, Claim, Fault, Found, Reply};
use crate::error::{LockError, NodeErrorKind};
use crate::fencing::FencingToken;

/// How often the client follows a redirect before we are told: twice, since a command for a master
/// that is gone goes to another server first. Each failure makes it look at the whole cluster anew,
/// which holds up the commands of all.
const RETRIES: u32 = 2;
const SHORTEST_PAUSE_MS: u64 = 10;
const LONGEST_PAUSE_MS: u64 = 100;
/// Ends what the client asks for itself, of a server that may be frozen. Commands of ours end
/// sooner, by our own bounds.
const CLIENT_REPLY: Duration = Duration::from_secs(5);
const CLIENT_CONNECT: Duration = Duration::from_secs(1);

/// The locks of a cluster. The client library finds the master of each key, follows it when it
/// moves, and asks again; every script may be repeated by its owner.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    node: RedisNode<Shards>,
}

impl RedisCluster {
    pub(crate) fn open(urls: &[String]) -> Result<Self, LockError> {
        let Some(first) = urls.first() else {
            return Err(LockError::config("`cluster` names no server"));
        };
        let seeds =
            urls.iter().map(|url| address::parse(url, None)).collect::<Result<Vec<_>, _>>()?;
        let name = format!("cluster {}", address::open(first, None)?.0);
        let client = ClusterClientBuilder::new(seeds)
            .retries(RETRIES)
            .min_retry_wait(SHORTEST_PAUSE_MS)
            .max_retry_wait(LONGEST_PAUSE_MS)
            .connection_timeout(CLIENT_CONNECT)
            .response_timeout(CLIENT_REPLY)
            .overall_response_timeout(None)
            .tcp_settings(TcpSettings::default().set_nodelay(true))
            .build()
            .map_err(|error| LockError::config(format!("{name}: {error}")))?;
        Ok(Self::new(name, Shards::Client(Box::new(client))))
    }

    pub(crate) fn from_pool(pool: Pool) -> Self {
        Self::new("cluster pool".to_owned(), Shards::Pool(pool))
    }

    fn new(name: String, shards: Shards) -> Self {
        Self { node: RedisNode::new(name, shards, NodeOptions::default()) }
    }
}

impl Backend for RedisCluster {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move { self.node.acquire(claim, within).await.map_err(passing) })
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        let raised = self.node.raise(claim, fencing_token, within);
        Box::pin(async move { raised.await.map_err(passing) })
    }

    /// Each lease by a script of its own, all at once. A script may use the keys of one slot only,
    /// and of these, one whose slot is on its way elsewhere would hold up the others.
    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            let questions = claims.chunks(1).map(|claim| self.node.renew(claim, within));
            let answers = at_once(questions.collect()).await;
            let is_any = answers.iter().any(Result::is_ok);
            let mut found = Vec::with_capacity(claims.len());
            for answer in answers {
                match answer {
                    Ok(answer) => found.extend(answer),
                    // What the others found must not get lost.
                    Err(fault) if is_any => {
                        tracing::debug!(nodes = ?fault.nodes, "a part of the cluster is silent");
                        found.push(None);
                    }
                    Err(fault) => return Err(passing(fault)),
                }
            }
            Ok(found)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move { self.node.release(claim, within).await.map_err(passing) })
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(async move { self.node.verify(within).await.map_err(passing) })
    }
}

/// What a cluster says while it changes is not the last word.
fn passing(fault: Fault) -> Fault {
    let changes = fault.nodes.iter().any(|node| node.kind() == NodeErrorKind::Cluster);
    Fault { is_final: fault.is_final && !changes, ..fault }
}

/// Awaits all of them.
async fn at_once<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Where connections to a whole cluster come from.
pub(crate) enum Shards {
    /// Of our own: the manager of the pool knows no options.
    Client(Box<ClusterClient>),
    Pool(Pool),
}

impl Source for Shards {
    type Connection = ClusterConnection;

    const LEADS_TO_ONE: bool = false;

    async fn connect(&self) -> RedisResult<ClusterConnection> {
        match self {
            Self::Client(client) => client.get_async_connection().await,
            Self::Pool(pool) => pool.manager().create().await,
        }
    }

    async fn leads(connection: &mut ClusterConnection, key: Option<&str>) -> bool {
        let place = match key {
            Some(key) => RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(
                Route::with_key(key, SlotAddr::Master),
            )),
            None => RoutingInfo::MultiNode((
                MultipleNodeRoutingInfo::AllNodes,
                Some(ResponsePolicy::OneSucceeded),
            )),
        };
        let answer = connection.route_command(redis::cmd("PING"), place);
        // A refusal is an answer as well.
        matches!(answer.await, Ok(Value::SimpleString(_) | Value::ServerError(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NodeError;

    #[test]
    fn what_a_cluster_says_while_it_changes_is_not_final() {
        for (kind, was_final, is_final) in [
            (NodeErrorKind::Cluster, true, false),
            (NodeErrorKind::NoPermission, true, true),
            (NodeErrorKind::NoPermission, false, false),
        ] {
            let nodes = vec![NodeError::new("n", kind, "on purpose")];
            let fault = passing(Fault { nodes, is_unknown: true, is_final: was_final });
            assert_eq!((fault.is_final, fault.is_unknown), (is_final, true), "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn at_once_waits_for_all_and_keeps_their_order() {
        let sleep = |seconds| -> Pin<Box<dyn Future<Output = u64> + Send>> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                seconds
            })
        };
        let start = tokio::time::Instant::now();
        assert_eq!(at_once(vec![sleep(3), sleep(1), sleep(2)]).await, [3, 1, 2]);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[test]
    fn a_cluster_without_a_server_says_so() {
        let error = RedisCluster::open(&[]).unwrap_err().to_string();
        assert!(error.contains("`cluster` names no server"), "{error}");
    }
}
