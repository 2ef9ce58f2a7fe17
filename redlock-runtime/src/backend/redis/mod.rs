//! One Redis server as a backend. Redis replies and errors stop in this folder.

pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod fifo_queue;
pub(crate) mod founders;
pub(crate) mod health;
pub(crate) mod node;
pub(crate) mod pending_undo;
pub(crate) mod pubsub;
pub(crate) mod quorum_member;
pub(crate) mod release_hints;
pub(crate) mod topology;

pub(crate) use connection::MinReplicas;
pub(crate) use node::{Core, NodeOptions, RedisNode, counter_life, renewal};
#[cfg(feature = "cluster")]
pub(crate) use topology::RedisCluster;
