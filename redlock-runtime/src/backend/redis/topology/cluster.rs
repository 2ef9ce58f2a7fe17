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
use crate::mutex::Mutex;
use crate::shield::tell;
use crate::together::together;

/// How long the leases of a slot are renewed one by one after a call for several of them failed.
const SPLIT: Duration = Duration::from_secs(1);

/// The locks of a cluster. [`Shards`] finds the master of each key, and follows it when it moves.
pub(crate) struct RedisCluster {
    node: RedisNode<Shards>,
    /// The slots whose leases are renewed one by one, and until when.
    split_slots: Mutex<HashMap<u16, Instant>>,
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
        Self { node, split_slots: Mutex::default(), health }
    }
}

impl RedisCluster {
    /// The client library of a pool has commands wait for a slot that is being moved, for longer
    /// than a renewal may take. That of our own clients tells us.
    fn waits_for_slots(&self) -> bool {
        self.node.route.core.source.inner.repeats_unseen()
    }

    /// Have leases of this slot to be renewed one by one, as a call for several has just failed?
    fn is_split(&self, slot: u16) -> bool {
        self.split_slots.lock().get(&slot).is_some_and(|end| Instant::now() < *end)
    }

    fn split(&self, slot: u16) {
        let (mut slots, now) = (self.split_slots.lock(), Instant::now());
        slots.retain(|_, end| now < *end);
        slots.insert(slot, now + SPLIT);
    }

    /// Renews leases of one slot together. If that fails, renews each by itself, now if there is
    /// time left, and for a while: a slot that is being moved serves its keys one by one, and one
    /// refused key must not keep the others from being renewed. The client library waits for such a
    /// slot before it gives up, for longer than a renewal of a short lease may take.
    fn renew_slot<'a>(&'a self, claims: &'a [Claim], end: Instant) -> NodeList<'a> {
        Box::pin(async move {
            let left = || end.saturating_duration_since(Instant::now());
            if let [first, _, ..] = claims
                && !self.waits_for_slots()
                && !self.is_split(first.key.slot())
            {
                match self.node.renew(claims, left()).await {
                    Ok(found) => return found.into_iter().map(Ok).collect(),
                    Err(fault) => {
                        self.split(first.key.slot());
                        if left().is_zero() {
                            return vec![Err(fault); claims.len()];
                        }
                    }
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
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

    use super::super::fake_server::fake_server;
    use super::*;
    use crate::backend::redis::commands::is_passing;
    use crate::backend::redis::connection::{Direct, bulk};
    use crate::error::NodeErrorKind;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_a_cluster_says_while_it_changes_is_not_final() {
        assert!(is_passing::<Shards>(NodeErrorKind::Cluster));
        assert!(!is_passing::<Shards>(NodeErrorKind::NoPermission));
        assert!(!is_passing::<Direct>(NodeErrorKind::Cluster));
    }

    /// The client library waits for the slot before it tells the answer, for longer than a renewal
    /// of a short lease may take: no time is left for further calls.
    #[tokio::test]
    async fn leases_of_a_slot_that_is_moved_are_renewed_one_by_one_for_a_while() {
        let (port, together) = (Arc::new(AtomicU16::new(0)), Arc::new(AtomicUsize::new(0)));
        let (at, count) = (Arc::clone(&port), Arc::clone(&together));
        let answer = move |command: &str| {
            if command.contains("SLOTS") {
                let (host, port) = (bulk("127.0.0.1"), at.load(Ordering::Relaxed));
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n{host}\r\n:{port}\r\n")
            } else if command.matches("lock:{s}").count() > 1 {
                count.fetch_add(1, Ordering::Relaxed);
                "-TRYAGAIN soon\r\n".to_owned()
            } else if command.contains("EVALSHA") {
                "*1\r\n:1795000000000000\r\n".to_owned()
            } else {
                "+OK\r\n".to_owned()
            }
        };
        port.store(fake_server(answer).await, Ordering::Relaxed);
        let url = format!("redis://127.0.0.1:{}", port.load(Ordering::Relaxed));
        let cluster = RedisCluster::open(&[url], None, SECOND, NodeOptions::default()).unwrap();
        let claims = ["{s}-1", "{s}-2"].map(|name| {
            let (key, owner) = (LockKey::new("lock:", name).unwrap(), Owner::of_nobody("model"));
            Claim { key, owner, expire: SECOND, kind: Kind::Exclusive }
        });
        // The connection is made.
        cluster.renew(&claims[..1], 60 * SECOND).await.unwrap();
        cluster.renew(&claims, SECOND / 64).await.unwrap_err();
        let found = cluster.renew(&claims, 60 * SECOND).await.unwrap();
        assert_eq!(found, [Some(Found::Ours); 2]);
        let together = together.load(Ordering::Relaxed);
        assert!(together <= 3, "one call was sent three times at most: {together}");
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
