//! One Redis server as a backend. Redis replies and errors stop in this folder.

mod acquire;
mod clock;
mod commands;
mod connection;
mod departures;
mod downgrade;
mod fifo_queue;
mod founders;
mod health;
mod health_check;
mod local_runtimes;
mod node;
mod node_core;
mod node_tasks;
#[cfg(feature = "_operator")]
pub(crate) mod operator;
mod pending_undo;
mod pubsub;
mod quorum_member;
mod raise;
mod release;
mod release_hints;
mod renewals;
mod replicated;
mod route;
mod several;
mod siblings;
#[cfg(test)]
pub(crate) mod simulated;
mod topology;
mod verify;

pub(crate) use connection::{MinReplicas, check_url};
pub(crate) use node::RedisNode;
pub(crate) use node_core::NodeOptions;
pub(crate) use siblings::Siblings;
#[cfg(feature = "cluster")]
pub(crate) use topology::RedisCluster;
