//! Sentinel and Cluster as sources of connections.

#[cfg(feature = "cluster")]
pub(crate) mod cluster;
#[cfg(feature = "cluster")]
pub(crate) mod cluster_connection;
#[cfg(feature = "cluster")]
mod cluster_health;
#[cfg(test)]
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod fake_server;
#[cfg(feature = "cluster")]
mod heard;
#[cfg(feature = "cluster")]
mod last_checks;
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod majority;
#[cfg(feature = "cluster")]
pub(crate) mod masters;
#[cfg(feature = "sentinel")]
mod named_server;
#[cfg(feature = "cluster")]
mod sent_scripts;
#[cfg(feature = "sentinel")]
pub(crate) mod sentinel;
#[cfg(feature = "sentinel")]
mod sentinel_answer;
#[cfg(feature = "sentinel")]
mod sentinel_vote;
#[cfg(feature = "sentinel")]
mod sentinel_watch;
#[cfg(feature = "cluster")]
mod shards;
#[cfg(feature = "_operator")]
mod slotless;
#[cfg(feature = "cluster")]
mod slots;
#[cfg(feature = "cluster")]
mod votes;

#[cfg(feature = "cluster")]
pub(crate) use cluster::RedisCluster;
