//! A Redis Cluster of three masters, each with a replica.

use std::time::Duration;

use crate::eventually::{eventually, ms, secs};
use crate::proxy::Proxy;
use crate::raw::{Raw, lines_of};
use crate::sentinel::linked_replicas;
use crate::server::{Server, ServerBuilder};

const SLOTS: u16 = 16384;
const MASTERS: usize = 3;

/// Longer than any start or failover on a loaded machine; either takes 2-5 s.
const BOUND: Duration = secs(60);
/// A node that is frozen does not answer: then another one is asked.
const ANSWER: Duration = ms(500);
/// A planned failover that took longer was given up.
const ORDER: Duration = secs(8);

/// The nodes of a cluster, formed without any tool.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let cluster = fault_kit::Cluster::start().await;
/// cluster.master_of("k").await.raw().cmd(&["SET", "k", "v"]).await;
/// assert_eq!(cluster.masters().await.len(), 3);
/// # });
/// ```
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// A cluster that fails over as soon as a master has been silent for a moment.
    pub async fn start() -> Cluster {
        Cluster::start_with(ms(1500), &[]).await
    }

    /// A cluster of another patience; `config` goes to all nodes.
    pub async fn start_with(node_timeout: Duration, config: &[&str]) -> Cluster {
        let mut nodes = Vec::new();
        for _ in 0..2 * MASTERS {
            nodes.push(node(node_timeout, config).start().await);
        }
        Cluster::of(nodes).await
    }

    /// The same with nodes built with `tls`: they speak TLS among each other.
    pub async fn start_over_tls(node_timeout: Duration, tls: &[String]) -> Cluster {
        let mut nodes = Vec::new();
        for _ in 0..2 * MASTERS {
            nodes.push(node(node_timeout, &[]).tls(tls).start().await);
        }
        Cluster::of(nodes).await
    }

    /// The same with a proxy in front of each node, in their order. Nodes and clients are told the
    /// addresses of the proxies; the replicas copy their masters through them.
    pub async fn start_behind_proxies(
        node_timeout: Duration,
        config: &[&str],
    ) -> (Cluster, Vec<Proxy>) {
        let (mut nodes, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..2 * MASTERS {
            let proxy = Proxy::ahead();
            let node = node(node_timeout, config).announced_as(&proxy).start().await;
            proxy.lead_to(&node);
            nodes.push(node);
            proxies.push(proxy);
        }
        (Cluster::of(nodes).await, proxies)
    }

    async fn of(nodes: Vec<Server>) -> Cluster {
        let cluster = Cluster { nodes };
        cluster.form().await;
        cluster.until_ready().await;
        cluster
    }

    /// The first three began as masters, the others as replicas of them, in the same order.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// All nodes, replicas too.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// All nodes of a cluster over TLS, replicas too.
    pub fn tls_urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::tls_url).collect()
    }

    /// Commands for assertions, which find the master of their key.
    pub fn raw(&self) -> Raw {
        Raw::cluster(&self.urls())
    }

    /// The masters of now, in the order of their slots.
    pub async fn masters(&self) -> Vec<&Server> {
        let mut shards = self.shards().await;
        shards.sort_by_key(|shard| shard.first);
        let mut masters: Vec<&Server> = Vec::new();
        for shard in shards {
            if masters.iter().all(|known| known.port() != shard.master.port()) {
                masters.push(shard.master);
            }
        }
        masters
    }

    /// The master of the slot of `key`, once there is one.
    pub async fn master_of(&self, key: &str) -> &Server {
        eventually(BOUND, || self.find_master(key)).await
    }

    /// Waits until the slot of `key` has another master than `old`, and the cluster takes writes.
    pub async fn successor_of(&self, old: &Server, key: &str) -> &Server {
        eventually(BOUND, || async {
            let now = self.find_master(key).await?;
            let is_ready = now.port() != old.port() && is_ok(&now.raw()).await;
            is_ready.then_some(now)
        })
        .await
    }

    /// The slot of `key`.
    pub async fn slot_of(&self, key: &str) -> u16 {
        let slot = self.ask(&["CLUSTER", "KEYSLOT", key]).await;
        lines_of(slot)[0].parse().expect("a slot is a number")
    }

    /// What the other nodes call this one.
    pub async fn id_of(&self, node: &Server) -> String {
        lines_of(node.raw().cmd(&["CLUSTER", "MYID"]).await).remove(0)
    }

    /// Waits until every running node finds the cluster well, with a replica behind each master.
    pub async fn until_ready(&self) {
        let running = || self.nodes.iter().filter(|node| node.is_running());
        for node in running() {
            let raw = node.raw();
            eventually(BOUND, || is_ok(&raw)).await;
        }
        eventually(BOUND, || async {
            let mut linked = 0;
            for node in running() {
                linked += linked_replicas(&node.raw()).await;
            }
            if linked + MASTERS == running().count() { Ok(()) } else { Err(linked) }
        })
        .await;
        // What clients are told comes from whichever node they ask: all have to know the replicas.
        for node in running() {
            let raw = node.raw();
            eventually(BOUND, || async {
                let known = lines_of(raw.cmd(&["CLUSTER", "NODES"]).await);
                let replicas = known.iter().filter(|line| line.contains("slave")).count();
                if replicas + MASTERS >= running().count() { Ok(()) } else { Err(known) }
            })
            .await;
        }
    }

    /// Makes the replica of the master of `key` the master, as an operator would order it: the old
    /// one takes no writes until the replica has all of its data, so that nothing is lost. Returns
    /// when all nodes know.
    pub async fn fail_over(&self, key: &str) -> &Server {
        let old = self.master_of(key).await;
        let replica = self.replica_of(old).await;
        // The order is given up when the two do not agree in time. A new one begins anew.
        loop {
            let ordered = replica.raw().try_cmd(&["CLUSTER", "FAILOVER"]).await;
            let is_done = async {
                while ordered.is_ok() && self.master_of(key).await.port() == old.port() {
                    tokio::time::sleep(ms(10)).await;
                }
            };
            if tokio::time::timeout(ORDER, is_done).await.is_ok() && ordered.is_ok() {
                break;
            }
            tokio::time::sleep(ms(50)).await;
        }
        self.until_ready().await;
        replica
    }

    /// Makes the replica of a master that is gone the master, without an election. The other nodes
    /// hear of it a moment later.
    pub async fn take_over(&self, old: &Server) -> &Server {
        let replica = self.replica_of(old).await;
        replica.raw().cmd(&["CLUSTER", "FAILOVER", "TAKEOVER"]).await;
        replica
    }

    /// Hands the slot of `key` with all of its keys to another master, while clients go on.
    pub async fn move_slot(&self, key: &str) {
        let from = self.master_of(key).await;
        let masters = self.masters().await;
        let to = masters.iter().find(|master| master.port() != from.port());
        let to = to.expect("there are three masters");
        let slot = self.slot_of(key).await.to_string();
        let (from_id, to_id) = (self.id_of(from).await, self.id_of(to).await);
        let (port, to, from) = (to.port().to_string(), to.raw(), from.raw());
        to.cmd(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
        from.cmd(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
        loop {
            let keys = lines_of(from.cmd(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).await);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                // One that ended meanwhile is no error.
                from.cmd(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000", "REPLACE"]).await;
            }
        }
        to.cmd(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
        from.cmd(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
        for master in &masters {
            // The others would hear of it, too, but later.
            let _ = master.raw().try_cmd(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
        }
        self.until_ready().await;
    }

    async fn form(&self) {
        let share = SLOTS / 3;
        for (n, node) in (0u16..).zip(&self.nodes) {
            let raw = node.raw();
            // Distinct from the start: otherwise the nodes first have to settle who is newer.
            raw.cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]).await;
            if usize::from(n) < MASTERS {
                let last = if usize::from(n) == MASTERS - 1 { SLOTS } else { share * (n + 1) } - 1;
                raw.add_slots(share * n, last).await;
            }
        }
        let first = self.nodes[0].raw();
        for node in &self.nodes[1..] {
            let (port, bus) = (node.public_port().to_string(), node.bus_port().to_string());
            first.cmd(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
        for node in &self.nodes {
            let raw = node.raw();
            let all = self.nodes.len();
            eventually(BOUND, || async {
                let known = lines_of(raw.cmd(&["CLUSTER", "NODES"]).await);
                // The port without TLS is learned last.
                let is_met = |line: &&String| !line.contains("handshake") && !line.contains(":0@");
                let met = known.iter().filter(is_met).count();
                if met == all { Ok(()) } else { Err(known) }
            })
            .await;
        }
        for (master, replica) in self.nodes.iter().zip(&self.nodes[MASTERS..]) {
            let id = self.id_of(master).await;
            replica.raw().cmd(&["CLUSTER", "REPLICATE", &id]).await;
        }
    }

    /// As the replica itself says, also of a master that is gone.
    async fn replica_of(&self, master: &Server) -> &Server {
        let port = master.public_port().to_string();
        let mut replica = None;
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            let role = lines_of(node.raw().cmd(&["ROLE"]).await);
            if role[0] == "slave" && role[2] == port {
                replica = Some(node);
            }
        }
        replica.expect("the master has a replica")
    }

    async fn find_master(&self, key: &str) -> Option<&Server> {
        let slot = self.slot_of(key).await;
        let shards = self.shards().await;
        let shard = shards.iter().find(|shard| (shard.first..=shard.last).contains(&slot));
        shard.map(|shard| shard.master)
    }

    async fn shards(&self) -> Vec<Shard<'_>> {
        let slots = self.ask(&["CLUSTER", "NODES"]).await;
        let mut shards = Vec::new();
        for line in lines_of(slots) {
            let words: Vec<&str> = line.split(' ').collect();
            let flags: Vec<&str> = words[2].split(',').collect();
            if !flags.contains(&"master") || flags.contains(&"fail") {
                continue;
            }
            // Over a connection without TLS, the port without TLS is told.
            let is_at = |port: u16| words[1].starts_with(&format!("127.0.0.1:{port}@"));
            let is_meant = |node: &&Server| is_at(node.public_port()) || is_at(node.port());
            let master = self.nodes.iter().find(is_meant);
            // A slot that is on its way stands in brackets, after the ranges.
            for range in words[8..].iter().filter(|range| !range.starts_with('[')) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |word: &str| word.parse().expect("a slot is a number");
                shards.push(Shard {
                    first: number(first),
                    last: number(last),
                    master: master.expect("it is one of ours"),
                });
            }
        }
        shards
    }

    /// The answer of the first node that gives one.
    async fn ask(&self, words: &[&str]) -> deadpool_redis::redis::Value {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            let raw = node.raw();
            if let Ok(Ok(reply)) = tokio::time::timeout(ANSWER, raw.try_cmd(words)).await {
                return reply;
            }
        }
        panic!("no node of the cluster answers {words:?}");
    }
}

fn node(timeout: Duration, config: &[&str]) -> ServerBuilder {
    let node = config.iter().fold(Server::builder(), |all, line| all.config(line));
    node.config(&format!("cluster-node-timeout {}", timeout.as_millis())).cluster()
}

struct Shard<'a> {
    first: u16,
    last: u16,
    master: &'a Server,
}

async fn is_ok(node: &Raw) -> bool {
    let info = node.try_cmd(&["CLUSTER", "INFO"]).await;
    info.is_ok_and(|info| lines_of(info).iter().any(|line| line == "cluster_state:ok"))
}
