//! The servers of a history, and how they change their roles.

use std::sync::atomic::{AtomicUsize, Ordering};

use fault_kit::time_passes;
use fault_kit::{Cluster, Masters, Proxy, Replicated, Sentinels, Server, ServerBuilder, ms, secs};

use crate::kind::Kind;
use crate::plan::Fault;
use crate::topology::Topology;

/// Nobody is given up because the machine is busy: a failover comes when it is ordered.
const PATIENCE: std::time::Duration = secs(60);
/// Data survives a SIGKILL as soon as it is written, synchronised or not.
const DURABLE: &[&str] = &["appendonly yes", "appendfsync no"];

#[derive(Debug)]
pub(crate) enum Servers {
    Masters(Masters),
    Replicated(Replicated),
    /// Sentinels, and which of their servers is the master.
    Watched(Sentinels, AtomicUsize),
    Cluster(Cluster, ClusterKeys),
}

/// One lock key, and the numbers of the two servers that had it at first.
#[derive(Debug)]
pub(crate) struct ClusterKeys(Vec<(String, [usize; 2])>);

impl Servers {
    /// With the proxies in front of them: one for a master and a replica that change roles by hand.
    pub(crate) async fn start(topology: Topology, lock_keys: &[String]) -> (Servers, Vec<Proxy>) {
        let count = topology.servers();
        match topology {
            Topology::One | Topology::Three | Topology::Five => {
                let masters = Masters::start_with(count, setup).await;
                let proxies = masters.iter().map(Proxy::start).collect();
                (Servers::Masters(masters), proxies)
            }
            Topology::Replicated => {
                let servers = Replicated::start_with(count - 1, setup).await;
                let proxies = vec![Proxy::start(servers.master())];
                (Servers::Replicated(servers), proxies)
            }
            Topology::Sentinel => {
                let (set, proxies) = Sentinels::start_behind_proxies(PATIENCE, DURABLE).await;
                (Servers::Watched(set, AtomicUsize::new(0)), proxies)
            }
            Topology::Cluster => {
                let (cluster, proxies) = Cluster::start_behind_proxies(PATIENCE, DURABLE).await;
                let mut keys = Vec::new();
                for key in lock_keys {
                    let master = cluster.master_of(key).await.port();
                    let is_master = |node: &Server| node.port() == master;
                    let at = cluster.nodes().iter().position(is_master).expect("a node");
                    keys.push((key.clone(), [at, at + cluster.nodes().len() / 2]));
                }
                (Servers::Cluster(cluster, ClusterKeys(keys)), proxies)
            }
        }
    }

    /// What a client of these servers is told.
    pub(crate) fn urls(&self, proxies: &[Proxy]) -> Vec<String> {
        match self {
            Servers::Watched(set, _) => set.urls(),
            _ => proxies.iter().map(Proxy::url).collect(),
        }
    }

    pub(crate) fn server(&self, n: usize) -> &Server {
        match self {
            Servers::Masters(masters) => &masters[n],
            Servers::Replicated(servers) => servers.server(n),
            Servers::Watched(set, _) => &set.servers()[n],
            Servers::Cluster(cluster, _) => &cluster.nodes()[n],
        }
    }

    /// Those that may hold locks that count.
    pub(crate) async fn masters(&self) -> Vec<&Server> {
        match self {
            Servers::Masters(masters) => masters.iter().collect(),
            Servers::Replicated(servers) => vec![servers.master()],
            Servers::Watched(set, _) => vec![set.master().await],
            Servers::Cluster(cluster, _) => cluster.masters().await,
        }
    }

    /// Waits until all servers know their roles.
    pub(crate) async fn settle(&self) {
        match self {
            Servers::Masters(_) | Servers::Replicated(_) => {}
            Servers::Watched(set, _) => set.agree().await,
            Servers::Cluster(cluster, _) => cluster.until_ready().await,
        }
    }

    /// The number of the server that a fault hits: where only some have locks, mostly one of those.
    pub(crate) fn target(&self, fault: &Fault, count: usize) -> usize {
        let any = fault.target % count;
        match self {
            Servers::Watched(_, master) if !fault.target.is_multiple_of(4) => {
                master.load(Ordering::Relaxed)
            }
            Servers::Cluster(_, ClusterKeys(keys)) if !fault.target.is_multiple_of(4) => {
                let (_, servers) = &keys[fault.target / 4 % keys.len()];
                servers[usize::from(fault.target / 8 % 4 == 3)]
            }
            _ => any,
        }
    }

    /// Does this fault need all servers awake, because some change their roles?
    pub(crate) fn is_about_all(&self, kind: Kind) -> bool {
        match self {
            Servers::Masters(_) => false,
            Servers::Replicated(_) => true,
            Servers::Watched(..) => matches!(kind, Kind::Failover | Kind::ServerKill),
            Servers::Cluster(..) => matches!(kind, Kind::Failover | Kind::MoveSlot),
        }
    }

    /// Gives a server its role back that has just been started: it came up as what it was at first.
    pub(crate) async fn restore_role(&self, server: &Server) {
        match self {
            Servers::Replicated(servers) => {
                let n = usize::from(!std::ptr::eq(servers.master(), servers.server(0)));
                servers.promote(n).await;
            }
            Servers::Watched(set, master) => {
                let master = &set.servers()[master.load(Ordering::Relaxed)];
                let port = master.public_port().to_string();
                let is_master = std::ptr::eq(master, server);
                let of = if is_master { ["NO", "ONE"] } else { ["127.0.0.1", &port] };
                server.raw().cmd(&["REPLICAOF", of[0], of[1]]).await;
            }
            Servers::Masters(_) | Servers::Cluster(..) => {}
        }
    }

    /// Freezes a sentinel, the first that clients are told more often than the others.
    pub(crate) async fn silence_a_sentinel(&self, fault: &Fault) {
        let Servers::Watched(set, _) = self else { return };
        let sentinels = set.sentinels();
        let sentinel = &sentinels[(fault.target % (2 * sentinels.len())).saturating_sub(3)];
        sentinel.freeze();
        time_passes(ms(fault.lasts_ms)).await;
        sentinel.thaw();
    }

    /// Makes another server the master. Sentinels may forget what no replica has; the masters of a
    /// cluster wait until their replica has all.
    pub(crate) async fn fail_over(&self, fault: &Fault, proxies: &[Proxy]) {
        match self {
            Servers::Masters(_) => unreachable!("independent masters do not fail over"),
            Servers::Replicated(servers) => fail_over_by_hand(servers, fault, &proxies[0]).await,
            Servers::Watched(set, master) => {
                set.agree().await;
                let next = set.failover().await;
                let is_next = |server: &Server| server.port() == next.port();
                let at = set.servers().iter().position(is_next).expect("one of them");
                master.store(at, Ordering::Relaxed);
                set.agree().await;
            }
            Servers::Cluster(cluster, keys) => {
                cluster.until_ready().await;
                cluster.fail_over(keys.any(fault)).await;
            }
        }
    }

    /// Hands the slot of a lock to another master.
    pub(crate) async fn move_slot(&self, fault: &Fault) {
        let Servers::Cluster(cluster, keys) = self else { return };
        cluster.until_ready().await;
        cluster.move_slot(keys.any(fault)).await;
    }
}

impl ClusterKeys {
    fn any(&self, fault: &Fault) -> &str {
        &self.0[fault.target % self.0.len()].0
    }
}

/// Makes the other server the master, in one of three ways.
async fn fail_over_by_hand(servers: &Replicated, fault: &Fault, proxy: &Proxy) {
    let next = usize::from(std::ptr::eq(servers.master(), servers.server(0)));
    let (old, new) = (servers.master(), servers.server(next));
    let lasts = ms(fault.lasts_ms);
    match fault.choice % 3 {
        // It has not heard of the last locks.
        0 => {
            new.freeze();
            time_passes(lasts).await;
            new.thaw();
            servers.promote(next).await;
        }
        // The old master is dead, and comes back as a replica.
        1 => {
            old.kill9();
            time_passes(lasts / 4).await;
            servers.promote(next).await;
        }
        _ => servers.promote(next).await,
    }
    proxy.lead_to(servers.master());
    proxy.cut_all();
    if !old.is_running() {
        old.start_again().await;
        servers.promote(next).await;
    }
}

/// The same, with a clock that can be set.
fn setup(server: ServerBuilder) -> ServerBuilder {
    server.append_only("no").with_clock()
}
