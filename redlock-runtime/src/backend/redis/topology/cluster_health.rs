//! Which masters of a cluster answer.

use std::pin::Pin;
use std::time::Duration;

use deadpool_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo, SingleNodeRoutingInfo,
};
use deadpool_redis::redis::{self, RedisResult, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::cluster::{RedisCluster, Shards};
use super::masters;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::commands::{Failure, no_reply};
use crate::backend::redis::connection::diagnose;
use crate::backend::redis::pubsub::broken;
use crate::backend::{HealthAnswer, HealthCheck};
use crate::error::NodeError;
use crate::health::{Health, NodeHealth};
use crate::together::together;

impl HealthCheck for RedisCluster {
    /// Asks which masters there are, then each of them.
    fn check_health(&self, within: Duration) -> HealthAnswer<'_> {
        Box::pin(async move {
            let (begun, sent) = (Instant::now(), CLOCK.now());
            let health = match self.masters(begun, within).await {
                Ok(masters) => {
                    let left = within.saturating_sub(begun.elapsed());
                    let checks = masters.into_iter().map(|master| {
                        let check: Pin<Box<dyn Future<Output = NodeHealth> + Send + '_>> =
                            Box::pin(self.check(master, left));
                        check
                    });
                    let nodes = together(checks.collect()).await;
                    let all = nodes.len();
                    Health::new(nodes, all)
                }
                Err(error) => {
                    let name = &self.core().name;
                    let since = self.checks.learn(name, false);
                    let took = begun.elapsed();
                    Health::new(vec![NodeHealth::new(name, took, Err(error), since)], 1)
                }
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
    /// The masters, as the first server names them that answers.
    async fn masters(
        &self,
        begun: Instant,
        within: Duration,
    ) -> Result<Vec<masters::Address>, NodeError> {
        let name = &self.core().name;
        let asked = timeout_at(begun + within, async {
            if let Shards::Client { seeds, .. } = &self.core().source.inner {
                return Ok(masters::masters(seeds, &[]).await?.1);
            }
            let mut loan = self.examining.borrow().await?;
            let all = MultipleNodeRoutingInfo::AllNodes;
            let place = RoutingInfo::MultiNode((all, Some(ResponsePolicy::OneSucceeded)));
            let command = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
            let slots = loan.connection.inner().route(command, place).await?;
            // A pool does not say which host is meant by servers that do not know their own.
            let found = masters::parse(&slots, "");
            if found.is_empty() { Err(broken()) } else { Ok(found) }
        });
        match asked.await {
            Ok(Ok(masters)) => Ok(masters),
            Ok(Err(error)) => Err(diagnose(name, &error).error),
            Err(_) => Err(no_reply(name, "no reply", within, false).error),
        }
    }

    /// Over a connection of its own where that is possible. The client library serves no other
    /// command while it looks for a master that is silent.
    async fn check(&self, master: masters::Address, within: Duration) -> NodeHealth {
        let name = format!("{} ({}:{})", self.core().name, master.0, master.1);
        let begun = Instant::now();
        let asked = timeout(within, async {
            let answer = match &self.core().source.inner {
                Shards::Client { seeds, .. } => masters::ping(&seeds[0], &master).await?,
                Shards::Pool(_) => {
                    let mut loan = self.examining.borrow().await?;
                    let (host, port) = master;
                    let master = SingleNodeRoutingInfo::ByAddress { host, port };
                    let place = RoutingInfo::SingleNode(master);
                    loan.connection.inner().route(redis::cmd("PING"), place).await?
                }
            };
            RedisResult::Ok(match answer {
                Value::ServerError(refusal) => Err(refusal.into()),
                _ => Ok(()),
            })
        });
        let answer = match asked.await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error)) | Err(error)) => Err(diagnose(&name, &error).error),
            Err(_) => Err(no_reply(&name, "no reply", within, false).error),
        };
        let took = begun.elapsed();
        let since = self.checks.learn(&name, answer.is_ok());
        NodeHealth::new(&name, took, answer, since)
    }
}
