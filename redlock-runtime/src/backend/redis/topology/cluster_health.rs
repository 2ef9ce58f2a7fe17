//! Which masters of a cluster answer.

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo, SingleNodeRoutingInfo,
};
use deadpool_redis::redis::{self, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::last_checks::LastChecks;
use super::masters;
use super::shards::Shards;
use super::slots::{self, Address, Master, View};
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::commands::{Failure, no_reply};
use crate::backend::redis::connection::{SharedConnection, address, diagnose};
use crate::backend::redis::node_core::NodeCore;
use crate::backend::redis::pubsub::{broken, silent};
use crate::backend::redis::route::Route;
use crate::backend::{Fault, HealthAnswer, HealthCheck};
use crate::clock::Moment;
use crate::error::{NodeError, NodeErrorKind, WITHOUT_MASTER};
use crate::health::{Health, NodeHealth};
use crate::key::mark_of_slot;
use crate::together::together;

/// Checks the masters of a cluster: for callers, and in an outage for the background.
pub(super) struct ClusterHealth {
    route: Route<Shards>,
    /// The prefix of the locks' keys.
    prefix: Arc<str>,
    checks: LastChecks,
    /// For checks of the masters of a pool's cluster. A check of one that is down makes the client
    /// library connect to all of them anew, and other commands on that connection wait.
    examining: SharedConnection<Shards>,
}

impl HealthCheck for ClusterHealth {
    /// Asks which masters there are, then each of them.
    fn check_health(&self, within: Duration) -> HealthAnswer<'_> {
        Box::pin(async move {
            let (begun, sent) = (Instant::now(), CLOCK.now());
            let health = match self.view(begun, within).await {
                Ok(view) => {
                    let whole = self.judged_as_a_whole(begun, self.covered(&view));
                    let left = within.saturating_sub(begun.elapsed());
                    let checks = view.masters.into_iter().map(|master| self.check(master, left));
                    let mut nodes = together(checks.map(Box::pin).collect()).await;
                    nodes.push(whole);
                    self.checks.forget_others(&nodes);
                    nodes.pop_if(|whole| whole.is_usable());
                    let all = nodes.len();
                    Health::new(nodes, all)
                }
                Err(error) => Health::new(vec![self.judged_as_a_whole(begun, Err(error))], 1),
            };
            self.note(&health, sent);
            health
        })
    }
}

impl ClusterHealth {
    pub(super) fn new(route: Route<Shards>, prefix: Arc<str>) -> Self {
        let examining = SharedConnection::new(Arc::clone(&route.core.source));
        Self { route, prefix, checks: LastChecks::default(), examining }
    }

    /// A part of the cluster that is out makes an outage, as it does for commands. Any other error
    /// keeps an outage from ending that commands have found; not so that this user may not make a
    /// check, and slots without a master where no command has missed it.
    fn note(&self, found: &Health, sent: Moment) {
        let health = &self.core().health;
        let errors = || found.nodes().iter().filter_map(NodeHealth::error);
        let is_of_outage = |error: &&NodeError| match error.kind() {
            NodeErrorKind::NoPermission | NodeErrorKind::WrongType => false,
            NodeErrorKind::Cluster => health.lacks_master(),
            _ => true,
        };
        let error =
            errors().find(|error| error.is_outage()).or_else(|| errors().find(is_of_outage));
        // In an outage, it may be the connection of the pool that is dead; it is not kept open
        // behind one.
        if (error.is_some() || health.is_out())
            && let Some(loan) = self.examining.at_hand()
        {
            self.examining.discard(&loan);
        }
        if let Some(error) = error {
            if error.is_outage() {
                drop(health.failed(Failure::not_run(error.clone()), sent));
            } else {
                health.note_not_back(error);
            }
            health.confirm();
        } else {
            health.heard_all(sent);
        }
    }

    fn core(&self) -> &NodeCore<Shards> {
        &self.route.core
    }

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
            (None, Some(unnamed)) => slots::without_address(unnamed),
            (None, None) => return Ok(()),
        };
        let error = NodeError::new(&self.core().name, NodeErrorKind::Cluster, message);
        Err(error.advising(WITHOUT_MASTER))
    }

    /// The cluster, as most of the servers see it that are named. If they have all left it, as the
    /// connection of the callers sees it, over which locks are still granted.
    async fn view(&self, begun: Instant, within: Duration) -> Result<View, NodeError> {
        let name = &self.core().name;
        let asked = timeout_at(begun + within, async {
            let mut loan = if let Shards::Client { seeds, lookup, .. } = &self.core().source.inner {
                let view = masters::view(seeds, lookup, &[], within / 4);
                let asked = timeout(within / 2, view).await;
                match (asked.unwrap_or_else(|_| Err(silent())), self.route.connection.at_hand()) {
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
            if found.is_empty() { Err(broken()) } else { Ok(found) }
        });
        match asked.await {
            Ok(Ok(view)) => Ok(view),
            Ok(Err(error)) => Err(diagnose(name, &error).error),
            Err(_) => Err(no_reply(name, "no reply", within, false).error),
        }
    }

    /// What errors call one of its masters.
    fn name_of(&self, (host, port): &Address) -> String {
        format!("{} ({})", self.core().name, address::with_port(host, *port))
    }

    /// A fault at which the client library says only that it found no connection, where the cause
    /// is a master that does not tell its address.
    pub(super) async fn explained(&self, fault: Fault, end: Instant) -> Fault {
        if fault.nodes.iter().all(|node| node.kind() != NodeErrorKind::Unreachable) {
            return fault;
        }
        let begun = Instant::now();
        match self.view(begun, end.saturating_duration_since(begun)).await {
            Ok(view) if view.unnamed.is_some() => match self.covered(&view) {
                Err(cause) => Fault { nodes: vec![cause], ..fault },
                Ok(()) => fault,
            },
            _ => fault,
        }
    }

    /// Reads a key of this master, below the prefix of the locks. A master that is cut off from
    /// most of the others, or belongs to a cluster that is down, answers PING and refuses all keys.
    ///
    /// Over a connection of its own where that is possible. The client library serves no other
    /// command while it looks for a master that is silent.
    async fn check(&self, master: Master, within: Duration) -> NodeHealth {
        let Master { address, slot } = master;
        let name = self.name_of(&address);
        let question = redis::cmd("GET").arg(mark_of_slot(&self.prefix, slot)).take();
        let begun = Instant::now();
        let asked = timeout(within, async {
            let answer = match &self.core().source.inner {
                Shards::Client { seeds, lookup, .. } => {
                    masters::ask(&seeds[0], &address, &question, lookup).await
                }
                Shards::Pool(_) => {
                    let mut loan = self.examining.borrow().await?;
                    let (host, port) = address;
                    let master = SingleNodeRoutingInfo::ByAddress { host, port };
                    let place = RoutingInfo::SingleNode(master);
                    loan.connection.inner().route(question, place).await
                }
            };
            match answer.and_then(Value::extract_error) {
                Err(error) if !masters::is_elsewhere(&error) => Err(error),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use std::time::SystemTime;

    use super::super::cluster::RedisCluster;
    use super::super::fake_server::fake_server;
    use super::*;
    use crate::backend::redis::connection::bulk;
    use crate::backend::redis::node_core::NodeOptions;
    use crate::backend::{BackgroundWork, LockBackend};
    use crate::mutex::Mutex;

    const SECOND: Duration = Duration::from_secs(1);

    /// The server has all slots, does not know its address, and agrees to everything else.
    #[tokio::test]
    async fn a_cluster_without_addresses_says_what_to_set() {
        let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n{}\r\n:7\r\n", bulk("?"));
        let port = fake_server(move |command| {
            if command.contains("SLOTS") { slots.clone() } else { "+OK\r\n".to_owned() }
        });
        let url = format!("redis://127.0.0.1:{}", port.await);
        let cluster = RedisCluster::open(&[url], None, SECOND, NodeOptions::default()).unwrap();
        let fault = cluster.verify(Duration::from_secs(60)).await.unwrap_err();
        let text = fault.nodes_text();
        assert!(text.contains("slots 0 to 16383 does not tell its address"), "{text}");
        assert!(text.contains("`cluster-announce-hostname`"), "{text}");
    }

    /// The bound is for a code that is wrong.
    async fn until(is_so: impl Fn() -> bool) {
        let come = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), come).await.expect("it does not come");
    }

    /// A cluster of one server, which has the slots up to this one, and its answer to `GET`.
    async fn cluster(last: u16, get: Arc<Mutex<&'static str>>) -> RedisCluster {
        let port = Arc::new(AtomicU16::new(0));
        let at = Arc::clone(&port);
        let answer = move |command: &str| {
            if command.contains("SLOTS") {
                let (host, port) = (bulk("127.0.0.1"), at.load(Ordering::Relaxed));
                format!("*1\r\n*3\r\n:0\r\n:{last}\r\n*2\r\n{host}\r\n:{port}\r\n")
            } else {
                let said = if command.contains("GET") { *get.lock() } else { "+OK" };
                format!("{said}\r\n")
            }
        };
        port.store(fake_server(answer).await, Ordering::Relaxed);
        let url = format!("redis://127.0.0.1:{}", port.load(Ordering::Relaxed));
        RedisCluster::open(&[url], None, SECOND, NodeOptions::default()).unwrap()
    }

    /// No call is made meanwhile, and what one server answers says nothing about the others. A
    /// master that refuses the login cannot be used either.
    #[tokio::test]
    async fn a_cluster_that_is_out_is_checked_in_the_background() {
        let refusal = "-NOAUTH Authentication required.";
        let get = Arc::new(Mutex::new(refusal));
        let cluster = cluster(16383, Arc::clone(&get)).await;
        let health = &cluster.health.core().health;
        tokio::spawn(cluster.background_task().unwrap());
        let error = NodeError::new("cluster n", NodeErrorKind::Unreachable, "refused");
        drop(health.failed(Failure::not_run(error), CLOCK.now()));
        until(|| health.is_told()).await;
        health.heard();
        assert!(health.is_silent(), "one server answers all the time");
        assert!(health.told().contains("Authentication required"), "{}", health.told());
        *get.lock() = "$-1";
        until(|| !health.is_silent()).await;
        *get.lock() = refusal;
        until(|| health.is_silent()).await;
    }

    /// A client whose locks are all in the other slots misses nothing.
    #[tokio::test]
    async fn slots_without_a_master_are_no_outage_before_a_call_wants_them() {
        let cluster = cluster(16382, Arc::new(Mutex::new("$-1"))).await;
        let health = cluster.health.check_health(Duration::from_secs(60)).await;
        assert!(!health.is_available(), "{health:?}");
        let outage = &cluster.health.core().health;
        assert!(!outage.is_out());
        // Nor do they keep one from ending.
        let error = NodeError::new("cluster n", NodeErrorKind::Unreachable, "reset");
        drop(outage.failed(Failure::not_run(error), CLOCK.now()));
        cluster.health.check_health(Duration::from_secs(60)).await;
        assert!(!outage.is_silent());
    }

    fn error(kind: NodeErrorKind) -> NodeError {
        NodeError::new("cluster n", kind, "told")
    }

    /// A check has found these errors. Returns whether the cluster is silent then, after an outage
    /// that began with this failure.
    fn is_silent(began: Option<NodeErrorKind>, found: &[NodeErrorKind]) -> bool {
        let urls = ["redis://h".to_owned()];
        let cluster = RedisCluster::open(&urls, None, SECOND, NodeOptions::default()).unwrap();
        let health = &cluster.health;
        if let Some(kind) = began {
            let failed = NodeError::new("cluster n", kind, "CLUSTERDOWN");
            drop(health.core().health.failed(Failure::not_run(failed), CLOCK.now()));
        }
        let node = |kind: &NodeErrorKind| {
            NodeHealth::new("n", Duration::ZERO, Err(error(*kind)), SystemTime::now())
        };
        health.note(&Health::new(found.iter().map(node).collect(), 1), Moment::NEVER);
        health.core().health.is_silent()
    }

    #[tokio::test]
    async fn what_a_check_finds_begins_an_outage_or_keeps_one_from_ending() {
        use NodeErrorKind::{
            Authentication, Cluster, NoPermission, NoReply, Unreachable, WrongType,
        };
        for (began, found, expected) in [
            (None, &[NoReply][..], true),
            (None, &[Authentication], false),
            (None, &[Authentication, Unreachable], true),
            (Some(Unreachable), &[], false),
            (Some(Unreachable), &[Authentication], true),
            // The user may not make the check, or another program has a key of this name.
            (Some(Unreachable), &[NoPermission, WrongType], false),
            // Nobody missed these slots, or somebody did.
            (Some(Unreachable), &[Cluster], false),
            (Some(Cluster), &[Cluster], true),
        ] {
            assert_eq!(is_silent(began, found), expected, "{began:?} {found:?}");
        }
    }

    #[tokio::test]
    async fn a_master_whose_slot_is_moved_is_well() {
        let get = Arc::new(Mutex::new("$-1"));
        let cluster = cluster(16383, Arc::clone(&get)).await;
        for (answer, is_well) in [
            ("-MOVED 7 h:1", true),
            ("-ASK 7 h:1", true),
            ("-TRYAGAIN soon", true),
            ("-CLUSTERDOWN", false),
        ] {
            *get.lock() = answer;
            let health = cluster.health.check_health(Duration::from_secs(60)).await;
            assert_eq!((health.nodes().len(), health.is_available()), (1, is_well), "{answer}");
        }
    }

    /// A gap in the slots does not explain why a server cannot be reached, nor does an address that
    /// is missing explain any other fault.
    #[tokio::test]
    async fn a_fault_with_another_cause_stays_as_it_is() {
        let cluster = cluster(16382, Arc::new(Mutex::new("$-1"))).await;
        let unreachable = Fault::known(vec![error(NodeErrorKind::Unreachable)]);
        let end = Instant::now() + Duration::from_secs(60);
        let explained = cluster.health.explained(unreachable.clone(), end).await;
        assert_eq!(explained.nodes_text(), unreachable.nodes_text());
    }

    #[test]
    fn a_master_with_an_address_of_ipv6_has_its_brackets() {
        let urls = ["redis://h".to_owned()];
        let cluster = RedisCluster::open(&urls, None, SECOND, NodeOptions::default()).unwrap();
        let name = |host: &str| cluster.health.name_of(&(host.to_owned(), 7911));
        assert_eq!(name("::1"), "cluster redis://h:6379 ([::1]:7911)");
        assert_eq!(name("b"), "cluster redis://h:6379 (b:7911)");
    }
}
