//! Which masters of a cluster answer.

use std::pin::Pin;
use std::time::Duration;

use deadpool_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo, SingleNodeRoutingInfo,
};
use deadpool_redis::redis::{self, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::cluster::{RedisCluster, Shards};
use super::masters;
use super::slots::{self, Master, View};
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::commands::{Failure, no_reply};
use crate::backend::redis::connection::diagnose;
use crate::backend::redis::pubsub::{broken, silent};
use crate::backend::{HealthAnswer, HealthCheck};
use crate::error::{NodeError, NodeErrorKind};
use crate::health::{Health, NodeHealth};
use crate::key::mark_of_slot;
use crate::together::together;

impl HealthCheck for RedisCluster {
    /// Asks which masters there are, then each of them.
    fn check_health(&self, within: Duration) -> HealthAnswer<'_> {
        Box::pin(async move {
            let (begun, sent) = (Instant::now(), CLOCK.now());
            let health = match self.view(begun, within).await {
                Ok(view) => {
                    let whole = self.judged_as_a_whole(begun, self.covered(&view));
                    let left = within.saturating_sub(begun.elapsed());
                    let checks = view.masters.into_iter().map(|master| {
                        let check: Pin<Box<dyn Future<Output = NodeHealth> + Send + '_>> =
                            Box::pin(self.check(master, left));
                        check
                    });
                    let mut nodes = together(checks.collect()).await;
                    nodes.push(whole);
                    self.checks.forget_others(&nodes);
                    nodes.pop_if(|whole| whole.is_usable());
                    let all = nodes.len();
                    Health::new(nodes, all)
                }
                Err(error) => Health::new(vec![self.judged_as_a_whole(begun, Err(error))], 1),
            };
            // A part of the cluster that is out makes an outage, as it does for commands.
            match health.nodes().iter().find_map(NodeHealth::error) {
                Some(error) => {
                    // It may be the connection of the pool that is dead.
                    if let Some(loan) = self.examining.at_hand() {
                        self.examining.discard(&loan);
                    }
                    let failure = Failure::new(error.clone(), false, false);
                    drop(self.core().health.failed(failure, sent));
                }
                None => self.core().health.heard(),
            }
            health
        })
    }
}

impl RedisCluster {
    /// The cluster itself, beside its masters.
    fn judged_as_a_whole(&self, begun: Instant, found: Result<(), NodeError>) -> NodeHealth {
        let name = &self.core().name;
        let since = self.checks.learn(name, found.is_ok());
        NodeHealth::new(name, begun.elapsed(), found, since)
    }

    /// The masters refuse the locks of slots that none of them has; all locks, unless they are told
    /// otherwise (`cluster-require-full-coverage no`). Those of a master without an address cannot
    /// be asked for.
    fn covered(&self, view: &View) -> Result<(), NodeError> {
        let message = match (view.gap, view.unnamed) {
            (Some((first, last)), _) => format!("no master has the slots {first} to {last}"),
            (None, Some((first, last))) => format!(
                "the master of the slots {first} to {last} does not tell its address; set \
                 `cluster-announce-hostname` there, or another `cluster-preferred-endpoint-type`"
            ),
            (None, None) => return Ok(()),
        };
        Err(NodeError::new(&self.core().name, NodeErrorKind::Cluster, message))
    }

    /// The cluster, as most of the servers see it that are named. If they have all left it, as the
    /// connection of the callers sees it, over which locks are still granted.
    async fn view(&self, begun: Instant, within: Duration) -> Result<View, NodeError> {
        let name = &self.core().name;
        let asked = timeout_at(begun + within, async {
            let mut loan = if let Shards::Client { seeds, .. } = &self.core().source.inner {
                let asked = timeout(within / 2, masters::view(seeds, &[], within / 4)).await;
                match (asked.unwrap_or_else(|_| Err(silent())), self.node.route.calls.at_hand()) {
                    (Ok((_, view)), _) => return Ok(view),
                    (Err(_), Some(loan)) => loan,
                    (Err(error), None) => return Err(error),
                }
            } else {
                self.examining.borrow().await?
            };
            let all = MultipleNodeRoutingInfo::AllNodes;
            let place = RoutingInfo::MultiNode((all, Some(ResponsePolicy::OneSucceeded)));
            let command = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
            let slots = loan.connection.inner().route(command, place).await?;
            // A pool does not say which host is meant by servers that do not know their own.
            let found = slots::parse(&slots, "");
            if found.masters.is_empty() { Err(broken()) } else { Ok(found) }
        });
        match asked.await {
            Ok(Ok(view)) => Ok(view),
            Ok(Err(error)) => Err(diagnose(name, &error).error),
            Err(_) => Err(no_reply(name, "no reply", within, false).error),
        }
    }

    /// Reads a key of this master, below the prefix of the locks. A master that is cut off from
    /// most of the others, or belongs to a cluster that is down, answers PING and refuses all keys.
    ///
    /// Over a connection of its own where that is possible. The client library serves no other
    /// command while it looks for a master that is silent.
    async fn check(&self, master: Master, within: Duration) -> NodeHealth {
        let Master { address, slot } = master;
        let name = format!("{} ({}:{})", self.core().name, address.0, address.1);
        let question = redis::cmd("GET").arg(mark_of_slot(&self.prefix, slot)).take();
        let begun = Instant::now();
        let asked = timeout(within, async {
            let answer = match &self.core().source.inner {
                Shards::Client { seeds, .. } => masters::ask(&seeds[0], &address, &question).await,
                Shards::Pool(_) => {
                    let mut loan = self.examining.borrow().await?;
                    let (host, port) = address;
                    let master = SingleNodeRoutingInfo::ByAddress { host, port };
                    let place = RoutingInfo::SingleNode(master);
                    loan.connection.inner().route(question, place).await
                }
            };
            match answer.and_then(Value::extract_error) {
                Err(error) if !is_elsewhere(&error) => Err(error),
                _ => Ok(()),
            }
        });
        let answer = match asked.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(diagnose(&name, &error).error),
            Err(_) => Err(no_reply(&name, "no reply", within, false).error),
        };
        let took = begun.elapsed();
        let since = self.checks.learn(&name, answer.is_ok());
        NodeHealth::new(&name, took, answer, since)
    }
}

/// Does a master that serves its keys say where this one is to be found? Its slot is moved, or was
/// just now.
fn is_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, Moved, TryAgain};
    matches!(error.kind(), ErrorKind::Server(Moved | Ask | TryAgain))
}
