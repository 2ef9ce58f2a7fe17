//! One Redis server as a backend. Redis replies and errors stop in this folder.

mod address;
mod behind;
#[cfg(feature = "cluster")]
mod cluster;
mod diagnosis;
mod exchange;
mod link;
mod node;
mod offset;
mod presence;
mod probe;
mod replicas;
mod reply;
mod roll;
mod script;
#[cfg(test)]
mod scripted;
#[cfg(feature = "sentinel")]
mod sentinel;
mod source;
mod voter;

#[cfg(feature = "cluster")]
pub(crate) use cluster::RedisCluster;
pub(crate) use node::{NodeOptions, RedisNode};
pub(crate) use replicas::MinReplicas;
