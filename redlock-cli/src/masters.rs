//! Which servers have locks of their own: of a cluster its masters, which change.

use std::mem::take;

use crate::failure::{Failure, told};
use crate::node::Node;
use crate::servers::{Servers, Topology};

/// Finds every server that has keys of its own.
#[derive(Debug)]
pub(crate) struct Masters<'a> {
    servers: &'a Servers,
    /// Of a cluster: the servers of its URLs, in the order in which they are asked for the masters.
    seeds: Vec<Node>,
}

impl<'a> Masters<'a> {
    pub(crate) fn of(servers: &'a Servers) -> Result<Self, Failure> {
        let seeds = match &servers.topology {
            Topology::Cluster(urls) => Node::each(servers, urls)?,
            Topology::Masters(_) | Topology::Sentinel { .. } => Vec::new(),
        };
        Ok(Self { servers, seeds })
    }

    /// Makes these servers those of now. One that is known already keeps its connection.
    pub(crate) async fn find(&mut self, known: &mut Vec<Node>) -> Result<(), Failure> {
        let Topology::Cluster(urls) = &self.servers.topology else {
            if known.is_empty() {
                *known = Node::of_keys(self.servers)?;
            }
            return Ok(());
        };
        let mut errors = Vec::new();
        for at in 0..self.seeds.len() {
            match self.seeds[at].masters().await {
                Ok(named) => {
                    // Silent ones are not waited for again.
                    self.seeds.rotate_left(at);
                    let mut former = take(known);
                    for (name, client) in named {
                        let same = former.iter().position(|node| node.name() == name);
                        known.push(match same {
                            Some(at) => former.swap_remove(at),
                            None => Node::master(self.servers, urls, (name, client))?,
                        });
                    }
                    return Ok(());
                }
                Err(error) => errors.push(told(&error)),
            }
        }
        Err(Failure::unavailable(errors.join("; ")))
    }

    /// The masters that were found do not all answer: next time another server of the cluster is
    /// asked first. The one that was asked may not have heard of a failover.
    pub(crate) fn doubt(&mut self) {
        if !self.seeds.is_empty() {
            self.seeds.rotate_left(1);
        }
    }
}
