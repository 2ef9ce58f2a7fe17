//! Asks one sentinel about a master.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, Role,
};
use tokio::time::{sleep, timeout};

use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::backend::redis::connection::{address, dial};
use crate::backend::redis::health::info;
use crate::backend::redis::pubsub::silent;

/// The pause before a sentinel is asked the same again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The time for a connection to a sentinel, and for each of its answers. One that is cut off, or
/// frozen, must not keep back for longer what the others say.
const ANSWER: Duration = Duration::from_secs(2);

/// The host and the port of a master.
pub(super) type MasterAddress = (String, u16);

/// What a sentinel says about a master.
pub(super) type Fields = HashMap<String, String>;

/// How to connect to the master that a sentinel names, once that has said that it is one. One that
/// is silent is waited for as long as the sentinel names no other one.
pub(super) async fn named_by(
    sentinel: &ConnectionInfo,
    master: &str,
    like: &ConnectionInfo,
    lookup: &HostLookup,
) -> RedisResult<ConnectionInfo> {
    let mut connection = connect(sentinel, lookup).await?;
    let role: Role = in_time(redis::cmd("ROLE").query_async(&mut connection)).await?;
    if !matches!(role, Role::Sentinel { .. }) {
        let told = "Address does not point to a sentinel node";
        return Err((ErrorKind::InvalidClientConfig, told).into());
    }
    let named = in_time(master_of(&mut connection, master)).await?;
    let mut named = named.ok_or_else(no_master)?;
    loop {
        let at = like.clone().set_addr(address::place(like.addr(), &named));
        tokio::select! {
            is_master = is_master(&at, lookup) => {
                return if is_master? { Ok(at) } else { Err(no_master()) };
            }
            next = successor_of(&named, &mut connection, master) => named = next,
        }
    }
}

/// A connection to a sentinel. The time for the lookup of its name is not limited here.
async fn connect(
    sentinel: &ConnectionInfo,
    lookup: &HostLookup,
) -> RedisResult<MultiplexedConnection> {
    if let Some((host, port)) = master_address(sentinel.addr()) {
        lookup.addresses(&host, port).await?;
    }
    in_time(dial::connect(sentinel, lookup)).await
}

async fn in_time<T>(answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(silent()))
}

/// Does the server say that it is a master? A user who may not ask for its role may read it.
async fn is_master(server: &ConnectionInfo, lookup: &HostLookup) -> RedisResult<bool> {
    let mut connection = dial::connect(server, lookup).await?;
    match redis::cmd("ROLE").query_async::<Role>(&mut connection).await {
        Ok(role) => return Ok(matches!(role, Role::Primary { .. })),
        Err(error) if error.is_io_error() => return Err(error),
        Err(_) => {}
    }
    let told: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await?;
    Ok(info::field(&told, "role") == Some("master"))
}

fn no_master() -> RedisError {
    let kind = ErrorKind::MasterNameNotFoundBySentinel;
    (kind, "Master with given name not found in sentinel").into()
}

/// The epoch of the configuration that a sentinel has of this master: each failover has a higher
/// one.
pub(super) async fn epoch(
    sentinel: &ConnectionInfo,
    master: &str,
    lookup: &HostLookup,
) -> RedisResult<u64> {
    let mut connection = dial::connect(sentinel, lookup).await?;
    let known = fields(&mut connection, master).await?.unwrap_or_default();
    Ok(known.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default())
}

pub(super) fn address_in(known: &Fields) -> Option<MasterAddress> {
    Some((known.get("ip")?.clone(), known.get("port")?.parse().ok()?))
}

/// The master of this name, unless the sentinel knows none, or finds it down.
async fn master_of(
    connection: &mut MultiplexedConnection,
    master: &str,
) -> RedisResult<Option<MasterAddress>> {
    let known = fields(connection, master).await?;
    Ok(known.filter(is_up).as_ref().and_then(address_in))
}

fn is_up(known: &Fields) -> bool {
    known.get("flags").is_some_and(|flags| {
        flags.contains("master") && !flags.contains("s_down") && !flags.contains("o_down")
    })
}

/// The master that takes the place of this one, once the sentinel names it.
async fn successor_of(
    address: &MasterAddress,
    connection: &mut MultiplexedConnection,
    master: &str,
) -> MasterAddress {
    loop {
        sleep(PAUSE).await;
        if let Ok(Some(named)) = master_of(connection, master).await
            && named != *address
        {
            return named;
        }
    }
}

/// What a sentinel says about the master of this name.
pub(super) async fn fields(
    connection: &mut MultiplexedConnection,
    master: &str,
) -> RedisResult<Option<Fields>> {
    let mut command = redis::cmd("SENTINEL");
    let masters: Vec<Fields> = command.arg("MASTERS").query_async(connection).await?;
    let is_it = |found: &Fields| found.get("name").is_some_and(|name| name == master);
    Ok(masters.into_iter().find(is_it))
}

pub(super) fn master_address(address: &ConnectionAddr) -> Option<MasterAddress> {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some((host.clone(), *port))
        }
        _ => None,
    }
}
