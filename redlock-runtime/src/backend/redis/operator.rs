//! What the commands of `redlock-cli` for operators need to know of the protocol.

use deadpool_redis::redis::{Client, RedisError};

use super::commands::exclusive::release;
use super::commands::shared::release as shared_release;
use super::connection::{address, diagnose};
use super::health::startup_check;
use super::topology::sentinel::Sentinels;
use crate::backend::Tls;
use crate::error::{LockError, NodeError};
use crate::key::LockKey;

/// The keys of one lock in Redis.
#[derive(Debug, Clone)]
pub struct LockKeys {
    /// The lock: it holds the owner.
    pub lock: String,
    /// The fencing mark of its hash slot.
    pub mark: String,
    /// Its fencing counter.
    pub counter: String,
    /// Its queue.
    pub queue: String,
    /// The holders of a lock of a shared kind.
    pub holders: String,
}

/// The keys of the lock that a client with `prefix` calls `name`. An error: no lock has that name,
/// but a helper key may have.
pub fn lock_keys(prefix: &str, name: &str) -> Result<LockKeys, LockError> {
    let key = LockKey::new(prefix, name)?;
    let [lock, mark, counter, queue] = key.with_helpers().names().map(str::to_owned);
    Ok(LockKeys { lock, mark, counter, queue, holders: key.holders_key() })
}

/// The script that releases the lock of an owner and hands it to the first in its queue. KEYS are
/// the first four of [`LockKeys`], in their order; ARGV is the owner.
pub fn release_script() -> &'static str {
    release::SCRIPT.text()
}

/// The script that takes an owner out of the holders of a lock of a shared kind. KEYS are lock,
/// holders, mark, counter and queue; ARGV are the owner and what stands in the lock.
pub fn shared_release_script() -> &'static str {
    shared_release::SCRIPT.text()
}

/// What a message may call the server at `url`, and a client for it.
pub fn server(url: &str, tls: Option<&Tls>) -> Result<(String, Client), LockError> {
    address::open(url, tls).map(|(name, _, client)| (name, client))
}

/// The server that the sentinels call the master at the moment.
pub async fn watched_master(urls: &[String], master: &str) -> Result<(String, Client), LockError> {
    let (name, sentinels) = Sentinels::each(urls, master)?;
    let unavailable =
        |error| LockError::Unavailable { key: String::new(), nodes: vec![explain(&name, &error)] };
    let Some(found) = sentinels.master().await else {
        return Err(LockError::config("these sentinels are those of a pool"));
    };
    let client = found.map_err(unavailable)?;
    let name = format!("{name} at {}", client.get_connection_info().addr());
    Ok((name, client))
}

/// Is the server at `node` one that has all locks, by its answer to `INFO`?
pub fn check_mode(node: &str, info: &str) -> Result<(), NodeError> {
    startup_check::check_mode(node, info).map_or(Ok(()), Err)
}

/// An error of the Redis client as the library tells it, with what to do.
pub fn explain(node: &str, error: &RedisError) -> NodeError {
    diagnose(node, error).error
}
