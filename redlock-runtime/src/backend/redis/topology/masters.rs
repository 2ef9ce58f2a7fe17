//! Listens at every master of a cluster: what a script publishes arrives without a detour over the
//! bus of the cluster, and the script can count the listeners.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::{PubSubSink, PubSubStream};
use deadpool_redis::redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value,
};
use futures_core::Stream;
use tokio::time::{Instant, timeout};

use super::heard::Heard;
#[cfg(feature = "_operator")]
use super::slotless::slotless;
#[cfg(feature = "_operator")]
use super::slots::without_address;
use super::slots::{Address, Master, View, parse};
use super::votes::votes;
#[cfg(feature = "_operator")]
use crate::backend::redis::connection::address::name;
use crate::backend::redis::connection::address::place;
use crate::backend::redis::connection::connect::{ConnectAttempt, Race};
use crate::backend::redis::connection::dial;
use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::backend::redis::pubsub::subscription::{
    HEARTBEAT, Listener, News, PubsubStream, broken, silent,
};
#[cfg(feature = "_operator")]
use crate::error::{NodeError, NodeErrorKind, WITHOUT_MASTER};
use crate::together::together;

/// No test is about how long servers take.
const SLACK: u64 = if cfg!(test) { 60 } else { 1 };
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(SLACK);
/// The time between two surveys while a master is not listened to, or while one may be new.
const SOON: Duration = Duration::from_secs(1);

/// Once one server has answered, the others have as long again, within these bounds. Only servers
/// that are silent, or disagree, use that time up.
const SHORTEST_GRACE: Duration = Duration::from_millis(250 * SLACK);
const LONGEST_GRACE: Duration = Duration::from_secs(SLACK);

/// Subscribes at all masters that answer.
pub(crate) async fn subscribe(
    seeds: &[ConnectionInfo],
    lookup: &HostLookup,
    listener: Listener,
) -> RedisResult<PubsubStream> {
    let (seeds, lookup) = (Arc::from(seeds), lookup.clone());
    let channel = listener.channel.clone();
    let found = survey(Arc::clone(&seeds), lookup.clone(), channel, Vec::new()).await?;
    if found.connections.is_empty() {
        return Err(found.failed.unwrap_or_else(broken));
    }
    let is_whole = found.failed.is_none();
    let masters = Masters {
        seeds,
        lookup,
        listener,
        connections: found.connections,
        heard: Heard::default(),
        is_whole,
        surveyed: Instant::now(),
    };
    Ok(Box::pin(masters.listen()))
}

/// A connection that listens at one server.
struct MasterConnection {
    address: Address,
    sink: PubSubSink,
    stream: PubSubStream,
}

/// All connections that listen in one cluster.
struct Masters {
    seeds: Arc<[ConnectionInfo]>,
    lookup: HostLookup,
    listener: Listener,
    /// One for each master, and for servers that were masters before.
    connections: Vec<MasterConnection>,
    heard: Heard,
    /// Every master is listened to, as far as is known.
    is_whole: bool,
    surveyed: Instant,
}

/// What a survey of the whole cluster found.
struct Survey {
    /// New connections to masters that were not listened to.
    connections: Vec<MasterConnection>,
    /// Servers whose connection gives no sign of life.
    deaf: Vec<Address>,
    /// Why a master is not listened to.
    failed: Option<RedisError>,
}

type Surveying = Pin<Box<dyn Future<Output = RedisResult<Survey>> + Send>>;

impl Masters {
    async fn listen(mut self) -> RedisError {
        let doubts = Arc::clone(&self.listener.doubts);
        let mut surveying: Option<Surveying> = None;
        loop {
            let due = self.next_survey();
            tokio::select! {
                (at, message) = next(&mut self.connections) => {
                    if let Some(message) = message {
                        self.pass_on(message);
                    } else {
                        self.lose(at);
                    }
                    if self.connections.is_empty() {
                        return broken();
                    }
                }
                found = ended(&mut surveying) => {
                    surveying = None;
                    self.surveyed = Instant::now();
                    self.learn(found);
                    if self.connections.is_empty() {
                        return silent();
                    }
                }
                () = tokio::time::sleep_until(due), if surveying.is_none() => {
                    surveying = Some(self.survey());
                }
                () = doubts.notified() => self.is_whole = false,
            }
        }
    }

    /// With the heartbeat, or soon if something seems wrong.
    fn next_survey(&self) -> Instant {
        self.surveyed + if self.is_whole { HEARTBEAT } else { SOON }
    }

    fn survey(&mut self) -> Surveying {
        // What goes wrong from here on, the survey may not see.
        self.is_whole = true;
        let known = self
            .connections
            .iter()
            .map(|connection| (connection.address.clone(), connection.sink.clone()))
            .collect();
        let (seeds, lookup) = (Arc::clone(&self.seeds), self.lookup.clone());
        Box::pin(survey(seeds, lookup, self.listener.channel.clone(), known))
    }

    fn learn(&mut self, found: RedisResult<Survey>) {
        let Ok(Survey { connections, deaf, failed }) = found else {
            self.is_whole = false;
            return;
        };
        self.is_whole &= failed.is_none() && deaf.is_empty();
        let had = self.connections.len();
        self.connections.retain(|connection| !deaf.contains(&connection.address));
        let is_changed = self.connections.len() < had || !connections.is_empty();
        self.connections.extend(connections);
        if is_changed {
            // Signals of a master without a connection were missed.
            let _ = self.listener.news.send(News::Gap);
        }
    }

    fn lose(&mut self, at: usize) {
        self.connections.swap_remove(at);
        self.is_whole = false;
        let _ = self.listener.news.send(News::Gap);
    }

    fn pass_on(&mut self, message: Vec<u8>) {
        if self.heard.note(&message) {
            self.listener.pass_on(message);
        }
    }
}

/// The end of a survey. Never returns while there is none. Cancel safe.
async fn ended(surveying: &mut Option<Surveying>) -> RedisResult<Survey> {
    match surveying {
        Some(surveying) => surveying.await,
        None => std::future::pending().await,
    }
}

/// The next message, and which connection received it. `None`: the connection broke. Cancel safe.
async fn next(connections: &mut [MasterConnection]) -> (usize, Option<Vec<u8>>) {
    std::future::poll_fn(|context| {
        for (at, connection) in connections.iter_mut().enumerate() {
            if let Poll::Ready(message) = Pin::new(&mut connection.stream).poll_next(context) {
                let message = message.map(|message| message.get_payload_bytes().to_vec());
                return Poll::Ready((at, message));
            }
        }
        Poll::Pending
    })
    .await
}

/// Finds out which servers are masters, subscribes where that is missing, and checks the other
/// connections for a sign of life.
async fn survey(
    seeds: Arc<[ConnectionInfo]>,
    lookup: HostLookup,
    channel: String,
    known: Vec<(Address, PubSubSink)>,
) -> RedisResult<Survey> {
    let (seed, View { masters, unnamed, .. }) = view(&seeds, &lookup, &known, CONNECT).await?;
    let checks = known.iter().map(|(_, sink)| Box::pin(lives(sink.clone(), &channel))).collect();
    let is_new = |one: &Master| known.iter().all(|(known, _)| *known != one.address);
    let new = masters.into_iter().filter(is_new);
    let opening = new.map(|one| Box::pin(open(&seed, one.address, &channel, &lookup))).collect();
    let (alive, opened) = tokio::join!(together(checks), together(opening));
    let deaf = known.into_iter().zip(alive).filter(|(_, lives)| !lives);
    let deaf = deaf.map(|((address, _), _)| address).collect();
    // A master without an address cannot be listened to.
    let failed = unnamed.map(|_| broken());
    let mut found = Survey { connections: Vec::new(), deaf, failed };
    for connection in opened {
        match connection {
            Ok(connection) => found.connections.push(connection),
            Err(error) => found.failed = Some(error),
        }
    }
    Ok(found)
}

/// The cluster as most servers see it, and how the first of these was connected to. A server that
/// was cut off names masters that were replaced. `patience`: for how long the others are waited
/// for, at most.
pub(super) async fn view(
    seeds: &[ConnectionInfo],
    lookup: &HostLookup,
    known: &[(Address, PubSubSink)],
    patience: Duration,
) -> RedisResult<(ConnectionInfo, View)> {
    let mut servers = seeds.to_vec();
    if let Some(seed) = seeds.first() {
        for (address, _) in known {
            servers.push(seed.clone().set_addr(place(seed.addr(), address)));
        }
    }
    // All at once: a silent server must not delay the others.
    let ask = |server: ConnectionInfo| -> ConnectAttempt<'_, (ConnectionInfo, View)> {
        Box::pin(async move {
            let asked = timeout(CONNECT, slots(&server, lookup)).await;
            let view = parse(&asked.unwrap_or_else(|_| Err(silent()))?, host(server.addr()));
            if view.is_empty() { Err(broken()) } else { Ok((server, view)) }
        })
    };
    let count = servers.len();
    let race = Race::to_servers(servers.into_iter().map(ask));
    let is_same = |(_, one): &(_, View), (_, other): &(_, View)| one == other;
    let grace = |took: Duration| took.clamp(SHORTEST_GRACE, LONGEST_GRACE).min(patience);
    let votes = votes(race, count, grace, is_same).await?;
    // One that tells addresses, if there is any. Of views that as many have, the first that came.
    let tells = |votes: &[(_, View)]| votes.iter().any(|(_, view)| !view.masters.is_empty());
    let most = votes.into_iter().rev().max_by_key(|votes| (tells(votes), votes.len()));
    most.unwrap_or_default().into_iter().next().ok_or_else(broken)
}

/// A server's answer to CLUSTER SLOTS.
async fn slots(server: &ConnectionInfo, lookup: &HostLookup) -> RedisResult<Value> {
    let mut connection = dial::connect(server, lookup).await?;
    redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await
}

/// The masters that `seed` names in its answers to CLUSTER SLOTS and CLUSTER NODES, each connected
/// to as the seed is.
#[cfg(feature = "_operator")]
pub(crate) fn named(
    slots: &Value,
    nodes: &str,
    seed: &ConnectionInfo,
) -> Result<Vec<ConnectionInfo>, NodeError> {
    let View { masters, unnamed, .. } = parse(slots, host(seed.addr()));
    let unknown = match unnamed {
        Some(slots) => without_address(slots),
        None if masters.is_empty() => "it names no master in `CLUSTER SLOTS`".to_owned(),
        None => {
            let slotless = slotless(nodes, &masters, host(seed.addr()));
            let addresses = masters.into_iter().map(|one| one.address).chain(slotless);
            let at = |address| seed.clone().set_addr(place(seed.addr(), &address));
            return Ok(addresses.map(at).collect());
        }
    };
    let error = NodeError::new(&name(seed), NodeErrorKind::Cluster, unknown);
    Err(error.advising(WITHOUT_MASTER))
}

/// Does a master that serves its keys say where this one is to be found? Its slot is moved, or was
/// just now.
pub(crate) fn is_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, Moved, TryAgain};
    matches!(error.kind(), ErrorKind::Server(Moved | Ask | TryAgain))
}

/// Asks one server.
pub(super) async fn ask(
    seed: &ConnectionInfo,
    address: &Address,
    question: &Cmd,
    lookup: &HostLookup,
) -> RedisResult<Value> {
    let info = seed.clone().set_addr(place(seed.addr(), address));
    let mut connection = dial::connect(&info, lookup).await?;
    question.query_async(&mut connection).await
}

/// Subscribing once more changes nothing, and needs no other permission.
async fn lives(mut sink: PubSubSink, channel: &str) -> bool {
    matches!(timeout(CONNECT, sink.subscribe(channel)).await, Ok(Ok(())))
}

async fn open(
    seed: &ConnectionInfo,
    address: Address,
    channel: &str,
    lookup: &HostLookup,
) -> RedisResult<MasterConnection> {
    let info = seed.clone().set_addr(place(seed.addr(), &address));
    let made = async {
        let (mut sink, stream) = dial::listen(&info, lookup).await?.split();
        sink.subscribe(channel).await?;
        Ok(MasterConnection { address, sink, stream })
    };
    timeout(CONNECT, made).await.unwrap_or_else(|_| Err(silent()))
}

/// The host of an address; none for a socket of this machine.
pub(super) fn host(address: &ConnectionAddr) -> &str {
    match address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}

#[cfg(all(test, feature = "_operator"))]
mod tests;
