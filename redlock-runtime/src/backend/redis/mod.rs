//! One Redis server as a backend. Redis replies and errors stop in this folder.

mod address;
mod behind;
#[cfg(feature = "cluster")]
mod cluster;
mod connecting;
mod diagnosis;
mod duty;
mod exchange;
mod health;
mod lane;
mod line;
mod line_reply;
mod link;
mod mailbox;
#[cfg(feature = "cluster")]
mod masters;
mod node;
mod notice;
mod notices;
mod offset;
mod outages;
mod presence;
mod probe;
mod release;
mod replicas;
mod reply;
mod roll;
mod script;
#[cfg(test)]
mod scripted;
#[cfg(feature = "sentinel")]
mod sentinel;
mod source;
mod subscription;
mod voter;
mod watch;

#[cfg(feature = "cluster")]
pub(crate) use cluster::RedisCluster;
pub(crate) use node::{NodeOptions, RedisNode};
pub(crate) use replicas::MinReplicas;
