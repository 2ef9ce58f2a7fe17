//! A master with two replicas, watched by three sentinels.

use std::time::Duration;

use crate::eventually::{eventually, ms, secs};
use crate::proxy::Proxy;
use crate::raw::{Raw, lines_of};
use crate::server::{Server, ServerBuilder};

const MASTER: &str = "mymaster";

/// Longer than any failover on a loaded machine; one takes 2-5 s.
const BOUND: Duration = secs(60);
/// A planned failover that took longer was given up.
const ORDER: Duration = secs(10);

/// The servers and their sentinels. Planned and unplanned failovers take seconds.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let set = fault_kit::Sentinels::start().await;
/// set.master().await.raw().cmd(&["SET", "k", "v"]).await;
/// assert_eq!(set.urls().len(), 3);
/// # });
/// ```
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// What the sentinels call the master.
    pub const MASTER: &str = MASTER;

    /// Sentinels that act soon: with less than two of their pings, which go out every second, they
    /// would find dead what was only slow.
    pub async fn start() -> Sentinels {
        Sentinels::start_with(ms(2000), &[]).await
    }

    /// Sentinels that leave a busy machine alone; `config` goes to the servers, not to them.
    pub async fn start_with(down_after: Duration, config: &[&str]) -> Sentinels {
        let server = || config.iter().fold(Server::builder(), |all, line| all.config(line));
        Sentinels::watch(replicated(server).await, down_after, &[]).await
    }

    /// The same with servers and sentinels built with `tls`: they speak TLS among each other.
    pub async fn start_over_tls(down_after: Duration, tls: &[String]) -> Sentinels {
        let servers = replicated(|| Server::builder().tls(tls)).await;
        Sentinels::watch(servers, down_after, tls).await
    }

    /// The same with a proxy in front of each server, in their order. The sentinels know the
    /// servers by their proxies, and so do clients; the replicas copy their master through its own.
    pub async fn start_behind_proxies(
        down_after: Duration,
        config: &[&str],
    ) -> (Sentinels, Vec<Proxy>) {
        let proxies: Vec<Proxy> = (0..3).map(|_| Proxy::ahead()).collect();
        let mut servers: Vec<Server> = Vec::new();
        for proxy in &proxies {
            let server = config.iter().fold(Server::builder(), |all, line| all.config(line));
            let server = server.announced_as(proxy);
            let server = match servers.first() {
                Some(master) => server.replica_of(master),
                None => server,
            };
            let server = server.start().await;
            proxy.lead_to(&server);
            servers.push(server);
        }
        (Sentinels::watch(servers, down_after, &[]).await, proxies)
    }

    /// Starts sentinels that watch these servers, of which the first one is the master.
    async fn watch(servers: Vec<Server>, down_after: Duration, tls: &[String]) -> Sentinels {
        let port = servers[0].public_port();
        let watch = || {
            Server::builder()
                .config(&format!("sentinel monitor {MASTER} 127.0.0.1 {port} 2"))
                .config(&format!(
                    "sentinel down-after-milliseconds {MASTER} {}",
                    down_after.as_millis()
                ))
                .config(&format!("sentinel failover-timeout {MASTER} 3000"))
                .config(&format!("sentinel parallel-syncs {MASTER} 2"))
                .tls(tls)
                .sentinel()
        };
        let (a, b, c) = tokio::join!(watch().start(), watch().start(), watch().start());
        let set = Sentinels { servers, sentinels: vec![a, b, c] };
        set.agree().await;
        set
    }

    /// The sentinels: what a client is told.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    /// The sentinels of a set over TLS.
    pub fn tls_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::tls_url).collect()
    }

    /// The first one is the first master.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Those who watch.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// Whom the sentinels name as master, once all that answer name the same, and it is one.
    pub async fn master(&self) -> &Server {
        eventually(BOUND, || self.named()).await
    }

    /// The master that takes over from `old`.
    pub async fn successor_of(&self, old: &Server) -> &Server {
        let port = old.port();
        eventually(BOUND, || async move {
            let now = self.named().await?;
            if now.port() == port { Err("still the old one".to_owned()) } else { Ok(now) }
        })
        .await
    }

    /// A planned failover, as an operator would order it.
    pub async fn failover(&self) -> &Server {
        let old = self.master().await;
        // Refused while the one before it is not over. One that takes too long is given up by the
        // sentinel, and has to be ordered again.
        let order =
            || async { self.sentinels[0].raw().try_cmd(&["SENTINEL", "FAILOVER", MASTER]).await };
        loop {
            eventually(BOUND, order).await;
            let next = tokio::time::timeout(ORDER, self.successor_of(old)).await;
            if let Ok(next) = next {
                return next;
            }
        }
    }

    /// Waits until every sentinel knows the others and both replicas, which are in step.
    pub async fn agree(&self) {
        for sentinel in &self.sentinels {
            let raw = sentinel.raw();
            let agrees = || async {
                let quorum = raw.try_cmd(&["SENTINEL", "CKQUORUM", MASTER]).await;
                let seen = field(&raw, "num-other-sentinels").await;
                let replicas = field(&raw, "num-slaves").await;
                let ready = quorum.is_ok() && seen == Some(2) && replicas == Some(2);
                if ready { Ok(()) } else { Err((quorum, seen, replicas)) }
            };
            eventually(BOUND, agrees).await;
        }
        let raw = self.master().await.raw();
        let linked = || async {
            let info = raw.try_cmd(&["INFO", "replication"]).await.map(lines_of);
            if linked_replicas(&raw).await == 2 { Ok(()) } else { Err(info) }
        };
        eventually(BOUND, linked).await;
    }

    /// Whom all running sentinels name, if it says itself that it is a master; or what they say.
    async fn named(&self) -> Result<&Server, String> {
        let mut ports: Vec<String> = Vec::new();
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_running()) {
            let raw = sentinel.raw();
            let reply = raw.try_cmd(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).await;
            ports
                .push(reply.map_or_else(|error| error.to_string(), |addr| lines_of(addr).concat()));
        }
        let is_named = |server: &&Server| {
            let address = format!("127.0.0.1{}", server.public_port());
            !ports.is_empty() && ports.iter().all(|port| *port == address)
        };
        let master = self.servers.iter().find(is_named);
        let master = master.ok_or_else(|| format!("the sentinels name {ports:?}"))?;
        if !master.is_running() {
            return Err(format!("{} does not run", master.port()));
        }
        let role = master.raw().try_cmd(&["ROLE"]).await.map(lines_of);
        match role {
            Ok(role) if role.first().is_some_and(|role| role == "master") => Ok(master),
            role => Err(format!("{} says {role:?}", master.port())),
        }
    }
}

/// A master and two replicas.
async fn replicated(server: impl Fn() -> ServerBuilder) -> Vec<Server> {
    let master = server().start().await;
    let replica = || server().replica_of(&master).start();
    let (one, two) = tokio::join!(replica(), replica());
    vec![master, one, two]
}

async fn field(sentinel: &Raw, name: &str) -> Option<u32> {
    let reply = sentinel.try_cmd(&["SENTINEL", "MASTER", MASTER]).await.ok()?;
    let words = lines_of(reply);
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1)?.parse().ok()
}

/// Replicas that are online and no more than a heartbeat behind.
pub async fn linked_replicas(master: &Raw) -> usize {
    let info = master.try_cmd(&["INFO", "replication"]).await;
    let info = info.map(lines_of).unwrap_or_default();
    info.iter().filter(|line| line.contains("state=online")).count()
}
