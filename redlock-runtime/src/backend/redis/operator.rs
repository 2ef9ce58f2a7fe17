//! What the commands of `redlock-cli` need to know of the protocol, of errors and of settings.

use std::fmt;
use std::num::NonZeroU32;

use deadpool_redis::cluster::ClusterClient;
use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::{Client, RedisError, TlsCertificates};
use deadpool_redis::redis::{Cmd, ConnectionInfo, Pipeline, RedisFuture, RedisResult, Value};

use super::commands::Script;
use super::commands::exclusive::{self, release};
use super::commands::shared::{self, release as shared_release, words};
use super::connection::host_lookup::HostLookup;
use super::connection::{address, diagnose, dial, unasked};
pub use super::health::info::InfoText;
use super::health::{info, startup_check};
use super::topology::cluster_connection::ShardsConnection;
use super::topology::masters;
use super::topology::sentinel::Sentinels;
use crate::backend::Tls;
use crate::error::WITHOUT_MASTER;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::key::LockKey;
use crate::kind::{self, Kind};
use crate::owner::{self, Owner, RETAINED};

/// What stands in a lock that readers share.
pub const READERS: &str = words::READERS;
/// What stands in a lock of permits.
pub const PERMITS: &str = words::PERMITS;

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

/// The digests by which servers know the scripts, by what cannot be done without them.
#[derive(Debug, Clone, Copy)]
pub struct Digests {
    /// Taking, keeping and releasing a lock.
    pub lock: [&'static str; 3],
    /// Waiting in the queue.
    pub queue: [&'static str; 3],
    /// Several keys at once, `min_hold`, N masters, signals to those who wait by polls.
    pub others: [&'static str; 6],
    /// Read locks and permits.
    pub kinds: [&'static str; 6],
}

/// All of them.
pub fn digests() -> Digests {
    use exclusive::{acquire, acquire_all, batch, enqueue, nudge, raise, release_all, renew};
    use exclusive::{release_hint, retain, rotate};
    Digests {
        lock: [&acquire::SCRIPT, &renew::SCRIPT, &release::SCRIPT].map(Script::digest),
        queue: [&enqueue::SCRIPT, &rotate::SCRIPT, &nudge::SCRIPT].map(Script::digest),
        others: [
            &acquire_all::SCRIPT,
            &release_all::SCRIPT,
            &batch::SCRIPT,
            &raise::SCRIPT,
            &retain::SCRIPT,
            &release_hint::SCRIPT,
        ]
        .map(Script::digest),
        kinds: [
            &shared::acquire::SCRIPT,
            &shared::enqueue::SCRIPT,
            &shared::release::SCRIPT,
            &shared::renew::SCRIPT,
            &shared::raise::SCRIPT,
            &shared::downgrade::SCRIPT,
        ]
        .map(Script::digest),
    }
}

/// What a message may call the server at `url`, and a client for it.
pub fn server(url: &str, tls: Option<&Tls>) -> Result<(String, Client), LockError> {
    let info = address::parse(url, tls)?;
    let name = address::name(&info);
    client(name, info)
}

/// A client that connects by itself.
fn client(name: String, info: ConnectionInfo) -> Result<(String, Client), LockError> {
    dial::prepare(info.addr());
    match Client::open(info) {
        Ok(client) => Ok((name, client)),
        Err(error) => Err(LockError::config(format!("{name}: {error}"))),
    }
}

/// A connection for commands to the server of a client, without timeouts.
pub async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let (server, lookup) = (client.get_connection_info(), HostLookup::default());
    match dial::connect(server, &lookup).await {
        Err(error) => Err(Box::pin(unasked::explained(server.addr(), &lookup, error)).await),
        made => made,
    }
}

/// The server that the sentinels call the master at the moment.
pub async fn watched_master(
    urls: &[String],
    master: &str,
    tls: Option<&Tls>,
) -> Result<(String, Client), LockError> {
    let (name, sentinels) = Sentinels::each(urls, master, tls)?;
    let unavailable =
        |error| LockError::Unavailable { key: String::new(), nodes: vec![explain(&name, &error)] };
    let Some(found) = sentinels.master().await else {
        return Err(LockError::config("these sentinels are those of a pool"));
    };
    let info = found.map_err(unavailable)?;
    client(format!("{name} at {}", info.addr()), info)
}

/// Can the master of this name be found with these sentinels, as far as the options tell?
pub fn check_watched(urls: &[String], master: &str, tls: Option<&Tls>) -> Result<(), LockError> {
    Sentinels::each(urls, master, tls).map(drop)
}

/// Is the server at `node` one that has all locks, by its answer to `INFO`?
pub fn check_mode(node: &str, info: &str) -> Result<(), NodeError> {
    let unfit = startup_check::check_mode(node, info);
    unfit.or_else(|| check_link(node, info)).map_or(Ok(()), Err)
}

/// Has a replica lost its master? Then it does not hear of renewals, nor of new locks.
fn check_link(node: &str, info: &str) -> Option<NodeError> {
    let is_cut_off = info::field(info, "role") == Some("slave")
        && info::field(info, "master_link_status").is_some_and(|status| status != "up");
    let message = "this server is a replica that has lost its master: what it says of locks is old";
    is_cut_off.then(|| NodeError::new(node, NodeErrorKind::ReadOnly, message))
}

/// An error of the Redis client as the library tells it, with what to do.
pub fn explain(node: &str, error: &RedisError) -> NodeError {
    diagnose(node, error).error
}

/// The same where the server is known to be one of a cluster, and is asked as one.
pub fn explain_in_cluster(node: &str, error: &RedisError) -> NodeError {
    match explain(node, error) {
        told if told.kind() == NodeErrorKind::Cluster => told.advising(WITHOUT_MASTER),
        told => told,
    }
}

/// Has a server of a cluster answered that another one has the key, or will have it?
pub fn is_elsewhere(error: &RedisError) -> bool {
    masters::is_elsewhere(error)
}

/// A connection to a whole cluster, on which a script leaves once, unless it was refused. The
/// client library would send it again after a lost answer, and the answer to the second one says
/// nothing about the first one. The error that comes in its place says that the outcome is unknown.
#[derive(Clone)]
pub struct WholeCluster(ShardsConnection);

impl WholeCluster {
    /// Connects with the settings of this client.
    pub async fn connect(client: &ClusterClient) -> RedisResult<Self> {
        let connection = client.get_async_generic_connection().await?;
        Ok(Self(ShardsConnection::Own(connection)))
    }
}

impl fmt::Debug for WholeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WholeCluster").finish_non_exhaustive()
    }
}

impl ConnectionLike for WholeCluster {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// The masters that the server of `seed` names in its answers to `CLUSTER SLOTS` and, where they
/// have no slots yet, to `CLUSTER NODES`: what a message may call each, and a client for it. An
/// error: not all of them can be asked.
pub fn cluster_masters(
    slots: &Value,
    nodes: &str,
    seed: &Client,
) -> Result<Vec<(String, Client)>, NodeError> {
    let client = |info: ConnectionInfo| {
        let name = address::name(&info);
        let client = Client::open(info).map_err(|error| explain(&name, &error))?;
        Ok((name, client))
    };
    let infos = masters::named(slots, nodes, seed.get_connection_info())?;
    infos.into_iter().map(client).collect()
}

/// The certificates for the Redis client, where it opens connections by itself.
pub fn certificates(tls: &Tls) -> Result<TlsCertificates, LockError> {
    tls.certificates()
}

/// Is an error of this kind one of a server that is down for a while?
pub fn is_outage(kind: NodeErrorKind) -> bool {
    kind.is_outage()
}

/// A field of the answer to `INFO`.
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info::field(info, name)
}

/// What the answer to `INFO` says of a server: `standalone`, `cluster` or `sentinel`.
pub fn server_mode(info: &str) -> Option<&str> {
    info::mode(info)
}

/// The files that `REDLOCK_TLS_CA`, `REDLOCK_TLS_CERT` and `REDLOCK_TLS_KEY` name; `set` has their
/// values.
pub fn tls(set: impl Fn(&'static str) -> Option<String>) -> Result<Option<Tls>, LockError> {
    Tls::from_variables(set)
}

/// How readers are shown where one holder is shown by its owner value: `3 readers`, or `readers` if
/// nobody counted them.
pub fn shown_readers(count: Option<usize>) -> String {
    kind::shown_group(Kind::Read, count)
}

/// The same for holders of permits.
pub fn shown_permits(count: Option<usize>) -> String {
    kind::shown_group(Kind::Permits(NonZeroU32::MIN), count)
}

/// Is a holder shown so, and not by its owner value?
pub fn is_group(holder: &str) -> bool {
    kind::group_of(holder).is_some()
}

/// What the owner values of one hold on several servers have in common.
pub fn hold_of(owner: &str) -> &str {
    owner::hold_of(owner)
}

/// The name of the client that an owner value begins with. One of another library is all name.
pub fn client_of(owner: &str) -> &str {
    retained_by(owner).or_else(|| name_in(owner)).unwrap_or(owner)
}

/// The client that has let go of a lock that stays taken until its `min_hold` is over.
pub fn retained_by(owner: &str) -> Option<&str> {
    name_in(owner)?.strip_suffix(RETAINED)
}

/// What stands before the random half of an owner value of this library.
fn name_in(owner: &str) -> Option<&str> {
    owner.rsplit_once(':').filter(|_| Owner::is_likely(owner)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use deadpool_redis::redis;

    use super::*;

    #[test]
    fn the_digests_are_those_of_all_scripts() {
        let hash = |text: &str| redis::Script::new(text).get_hash().to_owned();
        let Digests { lock, queue, others, kinds } = digests();
        let named: BTreeSet<String> =
            [&lock[..], &queue, &others].concat().into_iter().map(str::to_owned).collect();
        assert_eq!(named, exclusive::scripts().map(hash).into_iter().collect());
        let named: BTreeSet<String> = kinds.into_iter().map(str::to_owned).collect();
        assert_eq!(named, shared::scripts().map(hash).into_iter().collect());
    }
}
