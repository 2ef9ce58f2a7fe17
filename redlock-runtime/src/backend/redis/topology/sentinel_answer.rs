//! Asks one sentinel about a master.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, Role,
};
use tokio::time::{sleep, timeout};

use super::named_server::of_server;
use super::sentinel_vote::{MasterAddress, Naming, Namings};
use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::backend::redis::connection::{address, dial};
use crate::backend::redis::health::info;
use crate::backend::redis::pubsub::silent;

/// The pause before a sentinel is asked the same again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The time for a connection to a sentinel, and for each of its answers. One that is cut off, or
/// frozen, must not keep back for longer what the others say.
const ANSWER: Duration = Duration::from_secs(2);

/// What a sentinel says about a master.
pub(super) type Fields = HashMap<String, String>;

/// Asks a sentinel, and the server that it names.
pub(super) struct SentinelQuestion<'a> {
    pub(super) sentinel: &'a ConnectionInfo,
    /// Its number among all sentinels.
    pub(super) number: usize,
    pub(super) master: &'a str,
    /// How the master is connected to, wherever it is.
    pub(super) like: &'a ConnectionInfo,
    pub(super) lookup: &'a HostLookup,
    /// What the sentinels name is noted here before the server has answered.
    pub(super) namings: &'a Namings,
}

impl SentinelQuestion<'_> {
    /// How to connect to the master that the sentinel names, once that has said that it is one. One
    /// that is silent is waited for as long as the sentinel names no other one.
    pub(super) async fn answer(&self) -> RedisResult<ConnectionInfo> {
        let Self { sentinel, like, lookup, .. } = *self;
        let answer = self.ask().await.map_err(|error| of_server(sentinel.addr(), error));
        let (named, mut connection) = answer?;
        let mut named = named.and_then(|named| self.note(named)).ok_or_else(no_master)?;
        loop {
            let at = like.clone().set_addr(address::place(like.addr(), &named));
            tokio::select! {
                is_master = is_master(&at, lookup) => {
                    let is_master = is_master.map_err(|error| of_server(at.addr(), error))?;
                    return if is_master { Ok(at) } else { Err(no_master()) };
                }
                next = self.successor_of(&named, &mut connection) => named = next,
            }
        }
    }

    /// What the sentinel names, and the connection to it.
    async fn ask(&self) -> RedisResult<(Option<Naming>, MultiplexedConnection)> {
        let mut connection = connect(self.sentinel, self.lookup).await?;
        let role: Role = in_time(redis::cmd("ROLE").query_async(&mut connection)).await?;
        if !matches!(role, Role::Sentinel { .. }) {
            let told = "Address does not point to a sentinel node";
            let kind = ErrorKind::InvalidClientConfig;
            return Err((kind, told, self.sentinel.addr().to_string()).into());
        }
        let named = in_time(naming(&mut connection, self.master)).await?;
        Ok((named, connection))
    }

    /// The master that takes the place of this one, once the sentinel names it.
    async fn successor_of(
        &self,
        address: &MasterAddress,
        connection: &mut MultiplexedConnection,
    ) -> MasterAddress {
        loop {
            sleep(PAUSE).await;
            if let Ok(Some(named)) = naming(connection, self.master).await
                && let Some(named) = self.note(named)
                && named != *address
            {
                return named;
            }
        }
    }

    /// The address of the master, unless the sentinel finds it down.
    fn note(&self, named: Naming) -> Option<MasterAddress> {
        self.namings.note(self.number, &named);
        named.is_up.then_some(named.address)
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
    let told: info::InfoText =
        redis::cmd("INFO").arg("replication").query_async(&mut connection).await?;
    Ok(info::field(&told.0, "role") == Some("master"))
}

fn no_master() -> RedisError {
    let kind = ErrorKind::MasterNameNotFoundBySentinel;
    (kind, "Master with given name not found in sentinel").into()
}

pub(super) fn address_in(known: &Fields) -> Option<MasterAddress> {
    Some((known.get("ip")?.clone(), known.get("port")?.parse().ok()?))
}

/// The master of this name, as the sentinel knows it.
async fn naming(
    connection: &mut MultiplexedConnection,
    master: &str,
) -> RedisResult<Option<Naming>> {
    let Some(known) = fields(connection, master).await? else { return Ok(None) };
    let epoch = known.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let (epoch, is_up) = (epoch.unwrap_or_default(), is_up(&known));
    Ok(address_in(&known).map(|address| Naming { address, epoch, is_up }))
}

fn is_up(known: &Fields) -> bool {
    known.get("flags").is_some_and(|flags| {
        flags.contains("master") && !flags.contains("s_down") && !flags.contains("o_down")
    })
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

#[cfg(test)]
mod tests;
