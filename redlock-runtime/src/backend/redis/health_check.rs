//! Whether one server answers, and may hold locks.

use std::time::Duration;

use deadpool_redis::redis;
use tokio::time::{Instant, timeout};

use super::connection::{MinReplicas, Source};
use super::health::info::{InfoText, field};
use super::health::outages;
use super::health::startup_check::missing_replicas;
use super::node_core::NodeCore;
use super::route::Route;
use crate::backend::{HealthAnswer, HealthCheck};
use crate::error::{NodeError, NodeErrorKind};
use crate::health::{Health, NodeHealth};

impl<S: Source> HealthCheck for Route<S> {
    fn check_health(&self, within: Duration) -> HealthAnswer<'_> {
        Box::pin(async move {
            let core = &self.core;
            let begun = Instant::now();
            let answer = outages::ping(core, within).await;
            let took = begun.elapsed();
            let is_up = answer.is_ok();
            let since = core.health.since();
            let node = NodeHealth::new(&core.name, took, answer, since);
            let objection =
                if is_up { objection(core, within.saturating_sub(took)).await } else { None };
            Health::new(vec![node.objected(objection)], 1)
        })
    }
}

/// A replica answers as a master does, and refuses every lock; a master without the replicas that
/// have to confirm a lock grants none that counts. A user who may not run INFO goes without this
/// check.
async fn objection<S: Source>(core: &NodeCore<S>, within: Duration) -> Option<NodeError> {
    let info = timeout(within, async {
        let mut loan = core.renewals.borrow().await?;
        let command = redis::cmd("INFO").arg("replication").to_owned();
        command.query_async::<InfoText>(&mut loan.connection).await
    });
    let InfoText(info) = info.await.ok()?.ok()?;
    if field(&info, "role") == Some("slave") {
        let message = "this server is a replica";
        return Some(NodeError::new(&core.name, NodeErrorKind::ReadOnly, message));
    }
    let MinReplicas { needed, .. } = core.min_replicas()?;
    let connected = missing_replicas(&info, needed)?;
    let message =
        format!("{connected} replicas are connected, and {needed} have to confirm a lock");
    Some(NodeError::new(&core.name, NodeErrorKind::NoReplicas, message))
}
