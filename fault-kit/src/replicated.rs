//! A master with replicas, and the failover by hand.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::eventually::{eventually, secs};
use crate::server::{Server, ServerBuilder};

/// Servers of which one is the master of all others.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let servers = fault_kit::Replicated::start(1).await;
/// servers.promote(1).await;
/// assert_eq!(servers.master().raw().info("role").await, "master");
/// assert_eq!(servers.server(0).raw().info("role").await, "slave");
/// # });
/// ```
#[derive(Debug)]
pub struct Replicated {
    servers: Vec<Server>,
    master: AtomicUsize,
}

impl Replicated {
    /// A master and `replicas` that follow it, all with the default settings; returns once they
    /// are linked.
    pub async fn start(replicas: usize) -> Replicated {
        Replicated::start_with(replicas, |server| server).await
    }

    /// The same, with servers that are all set up in the same way.
    pub async fn start_with(
        replicas: usize,
        setup: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Replicated {
        let master = setup(Server::builder()).start().await;
        let mut servers = vec![master];
        for _ in 0..replicas {
            let replica = setup(Server::builder()).replica_of(&servers[0]);
            servers.push(replica.start().await);
        }
        let replicated = Replicated { servers, master: AtomicUsize::new(0) };
        replicated.linked().await;
        replicated
    }

    /// The server that was made the master last.
    pub fn master(&self) -> &Server {
        &self.servers[self.master.load(Ordering::SeqCst)]
    }

    /// One of all, by its number; 0 was the master at first.
    pub fn server(&self, n: usize) -> &Server {
        &self.servers[n]
    }

    /// All servers but the master.
    pub fn replicas(&self) -> impl Iterator<Item = &Server> {
        let master = self.master().port();
        self.servers.iter().filter(move |server| server.port() != master)
    }

    /// Makes server `n` the master with what it has, and all others that run its replicas. They
    /// forget what it does not have. Returns at once: `linked` tells when it is done.
    pub async fn promote(&self, n: usize) {
        self.master.store(n, Ordering::SeqCst);
        self.master().raw().cmd(&["REPLICAOF", "NO", "ONE"]).await;
        let port = self.master().port().to_string();
        for replica in self.replicas().filter(|replica| replica.is_running()) {
            replica.raw().cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
        }
    }

    /// Waits until every replica has what the master has; fails the test after twenty seconds.
    pub async fn linked(&self) {
        for replica in self.replicas() {
            let raw = replica.raw();
            let up = || async { raw.info("master_link_status").await == "up" };
            eventually(secs(20), up).await;
        }
    }
}
