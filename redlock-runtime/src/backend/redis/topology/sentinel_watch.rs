//! Asks the sentinels again and again whom they name: a failover breaks no connection to a master
//! that the others cannot reach.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{Client, ConnectionAddr, ConnectionInfo, RedisResult};
use tokio::time::timeout;

use super::majority::is_majority;
use crate::clock::Moment;
use crate::mutex::Mutex;
use crate::together::together;

/// The pause between two rounds.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// How long a sentinel may take to answer.
const REPLY: Duration = Duration::from_secs(1);

/// The host and the port of a master.
pub(super) type MasterAddress = (String, u16);

/// What a sentinel says about a master.
pub(super) type Fields = HashMap<String, String>;

/// Whom each of the sentinels watches, over connections that stay from one round to the next.
pub(super) struct SentinelWatch<'a> {
    master: &'a str,
    sentinels: Vec<(&'a ConnectionInfo, Option<MultiplexedConnection>)>,
}

impl<'a> SentinelWatch<'a> {
    pub(super) fn new(sentinels: &'a [ConnectionInfo], master: &'a str) -> Self {
        Self { master, sentinels: sentinels.iter().map(|sentinel| (sentinel, None)).collect() }
    }

    /// The master that most of all sentinels name. `None`: most of them do not answer, or disagree.
    pub(super) async fn named(&mut self) -> Option<MasterAddress> {
        let (master, count) = (self.master, self.sentinels.len());
        let asked = self.sentinels.iter_mut().map(|(sentinel, open)| ask(sentinel, open, master));
        let asked = asked.map(Box::pin).collect();
        let named: Vec<_> = together(asked).await.into_iter().flatten().collect();
        let votes = |one: &&MasterAddress| named.iter().filter(|other| other == one).count();
        named.iter().find(|one| is_majority(votes(one), count)).cloned()
    }
}

/// Whom a sentinel names. `None`: it does not answer, or knows no such master.
async fn ask(
    sentinel: &ConnectionInfo,
    open: &mut Option<MultiplexedConnection>,
    master: &str,
) -> Option<MasterAddress> {
    let known = timeout(REPLY, async {
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => connect(sentinel).await?,
        };
        let known = fields(&mut connection, master).await?;
        *open = Some(connection);
        RedisResult::Ok(known)
    });
    let known = known.await.ok()?.ok()??;
    Some((known.get("ip")?.clone(), known.get("port")?.parse().ok()?))
}

pub(super) async fn connect(sentinel: &ConnectionInfo) -> RedisResult<MultiplexedConnection> {
    Client::open(sentinel.clone())?.get_multiplexed_async_connection().await
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

/// The masters to which connections were made, and when the latest of each began.
#[derive(Default)]
pub(crate) struct LedTo(Mutex<HashMap<MasterAddress, Moment>>);

impl LedTo {
    /// A connection that `begun` then leads there.
    pub(super) fn note(&self, address: &ConnectionAddr, begun: Moment) {
        let Some(address) = master_address(address) else { return };
        let mut known = self.0.lock();
        let latest = known.entry(address).or_default();
        *latest = begun.max(*latest);
    }

    /// The master to which the latest connection leads.
    pub(super) fn latest(&self) -> Option<MasterAddress> {
        let known = self.0.lock();
        known.iter().max_by_key(|(_, begun)| **begun).map(|(address, _)| address.clone())
    }

    /// Forgets all masters but this one. Returns when the latest connection to another one began.
    pub(super) fn leave_others(&self, master: &MasterAddress) -> Option<Moment> {
        let mut known = self.0.lock();
        known.extract_if(|address, _| address != master).map(|(_, begun)| begun).max()
    }
}

pub(super) fn master_address(address: &ConnectionAddr) -> Option<MasterAddress> {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some((host.clone(), *port))
        }
        _ => None,
    }
}
