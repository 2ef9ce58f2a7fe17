//! A Redis Cluster: one client of many servers, each of which has its part of the keys.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::cluster::Pool;
use tokio::time::Instant;

use super::cluster_health::ClusterHealth;
use super::shards::Shards;
use crate::backend::redis::connection::Source;
use crate::backend::redis::node::RedisNode;
use crate::backend::redis::node_core::NodeOptions;
use crate::backend::{
    Abilities, Acquired, BackgroundTask, BackgroundWork, Claim, Fault, Found, LockBackend, Release,
    Reply, Tls,
};
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::shield::tell;
use crate::together::together;

/// The locks of a cluster. [`Shards`] finds the master of each key, and follows it when it moves.
pub(crate) struct RedisCluster {
    node: RedisNode<Shards>,
    pub(super) health: Arc<ClusterHealth>,
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
        reply_timeout: Duration,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let (name, shards) = Shards::to(urls, tls, reply_timeout)?;
        Ok(Self::of(name, shards, options))
    }

    pub(crate) fn from_pool(pool: Pool, options: NodeOptions) -> Self {
        Self::of("cluster pool".to_owned(), Shards::Pool(pool), options)
    }

    fn of(name: String, shards: Shards, options: NodeOptions) -> Self {
        let prefix = Arc::clone(&options.prefix);
        let node = RedisNode::new(name, shards, options);
        let health = Arc::new(ClusterHealth::new(node.route.clone(), prefix));
        Self { node, health }
    }
}

impl RedisCluster {
    /// The client library of a pool has commands wait for a slot that is being moved, for longer
    /// than a renewal may take. That of our own clients tells us.
    fn waits_for_slots(&self) -> bool {
        self.node.route.core.source.inner.repeats_unseen()
    }

    /// Renews leases of one slot together. If that fails and there is time left, renews each by
    /// itself: a slot that is being moved serves its keys one by one, and one refused key must not
    /// keep the others from being renewed.
    fn renew_slot<'a>(&'a self, claims: &'a [Claim], end: Instant) -> NodeList<'a> {
        Box::pin(async move {
            let left = || end.saturating_duration_since(Instant::now());
            if claims.len() > 1 && !self.waits_for_slots() {
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
                Err(fault) => Err(self.health.explained(fault, end).await),
            }
        })
    }

    fn abilities(&self) -> Abilities<'_> {
        let health: &ClusterHealth = &self.health;
        Abilities { health: Some(health), background_work: Some(self), ..self.node.abilities() }
    }
}

impl BackgroundWork for RedisCluster {
    fn background_task(&self) -> Option<BackgroundTask> {
        let health: Arc<ClusterHealth> = Arc::clone(&self.health);
        self.node.background_task_with(health)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_server::fake_server;
    use super::*;
    use crate::backend::redis::commands::is_passing;
    use crate::backend::redis::connection::Direct;
    use crate::error::NodeErrorKind;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_a_cluster_says_while_it_changes_is_not_final() {
        assert!(is_passing::<Shards>(NodeErrorKind::Cluster));
        assert!(!is_passing::<Shards>(NodeErrorKind::NoPermission));
        assert!(!is_passing::<Direct>(NodeErrorKind::Cluster));
    }

    /// What a cluster fails with whose first servers are at these ports.
    async fn failed_with(scheme: &str, ports: [u16; 2]) -> (NodeErrorKind, bool, String) {
        let urls = ports.map(|port| format!("{scheme}://u:p@127.0.0.1:{port}"));
        let cluster = RedisCluster::open(&urls, None, SECOND, NodeOptions::default()).unwrap();
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
        let error =
            RedisCluster::open(&[], None, SECOND, NodeOptions::default()).unwrap_err().to_string();
        assert!(error.contains("`cluster` names no server"), "{error}");
    }
}
