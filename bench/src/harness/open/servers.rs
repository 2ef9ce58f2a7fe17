//! Servers of the subjects that need more than the one of the laboratory.

use fault_kit::{Cluster, Masters, Replicated, secs};

use super::super::cores::Cores;
use super::super::subjects::Subject;
use crate::Failure;

/// They end when this is dropped.
pub enum Servers {
    Own,
    Masters(Masters),
    Replicated(Replicated),
    Cluster(Cluster),
}

/// What cannot be started fails the measurement, not the program: the tools panic.
pub async fn start(cores: &Cores, subject: &Subject) -> Result<Servers, Failure> {
    let name = subject.name;
    let start = async move {
        match name {
            "redlock-3-masters" => Servers::Masters(Masters::start(3).await),
            "redlock-min-replicas" => Servers::Replicated(Replicated::start(1).await),
            // A busy machine is no failover.
            "redlock-cluster" => Servers::Cluster(Cluster::start_with(secs(10), &[]).await),
            _ => Servers::Own,
        }
    };
    Ok(cores.of_servers(tokio::spawn(start)).await?)
}

impl Servers {
    /// Several URLs have commas between them.
    pub fn url(&self) -> Option<String> {
        match self {
            Servers::Own => None,
            Servers::Masters(masters) => Some(masters.urls().join(",")),
            Servers::Replicated(servers) => Some(servers.master().url()),
            Servers::Cluster(cluster) => Some(cluster.urls().join(",")),
        }
    }
}
