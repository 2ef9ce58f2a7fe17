//! Listens at every master of a cluster: what a script publishes arrives without a detour over the
//! bus of the cluster, and the script can count the listeners.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::{PubSubSink, PubSubStream};
use deadpool_redis::redis::{
    Client, ConnectionAddr, ConnectionInfo, RedisError, RedisResult, Value,
};
use futures_core::Stream;
use tokio::time::{Instant, timeout};

use super::heard::Heard;
use crate::backend::redis::commands::reply::text;
use crate::backend::redis::connection::connect::{ConnectAttempt, Race};
use crate::backend::redis::pubsub::subscription::{
    HEARTBEAT, Listener, News, PubsubStream, broken, silent,
};
use crate::together::together;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(1);
/// The time between two surveys while a master is not listened to, or while one may be new.
const SOON: Duration = Duration::from_secs(1);

/// The address of a server.
pub(super) type Address = (String, u16);

/// Subscribes at all masters that answer.
pub(crate) async fn subscribe(
    seeds: &[ConnectionInfo],
    listener: Listener,
) -> RedisResult<PubsubStream> {
    let seeds = Arc::from(seeds);
    let found = survey(Arc::clone(&seeds), listener.channel.clone(), Vec::new()).await?;
    if found.connections.is_empty() {
        return Err(found.failed.unwrap_or_else(broken));
    }
    let is_whole = found.failed.is_none();
    let masters = Masters {
        seeds,
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
        Box::pin(survey(Arc::clone(&self.seeds), self.listener.channel.clone(), known))
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
        if self.heard.is_new(&message) {
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
    channel: String,
    known: Vec<(Address, PubSubSink)>,
) -> RedisResult<Survey> {
    let (seed, masters) = masters(&seeds, &known).await?;
    let mut checks: Vec<Pin<Box<dyn Future<Output = bool> + Send + '_>>> = Vec::new();
    for (_, sink) in &known {
        checks.push(Box::pin(lives(sink.clone(), &channel)));
    }
    let mut opening: Vec<Pin<Box<dyn Future<Output = RedisResult<MasterConnection>> + Send + '_>>> =
        Vec::new();
    for master in masters {
        if known.iter().all(|(address, _)| *address != master) {
            opening.push(Box::pin(open(&seed, master, &channel)));
        }
    }
    let (alive, opened) = tokio::join!(together(checks), together(opening));
    let deaf = known.into_iter().zip(alive).filter(|(_, lives)| !lives);
    let deaf = deaf.map(|((address, _), _)| address).collect();
    let mut found = Survey { connections: Vec::new(), deaf, failed: None };
    for connection in opened {
        match connection {
            Ok(connection) => found.connections.push(connection),
            Err(error) => found.failed = Some(error),
        }
    }
    Ok(found)
}

/// The masters as the first server names them that answers, and how that server was connected to.
pub(super) async fn masters(
    seeds: &[ConnectionInfo],
    known: &[(Address, PubSubSink)],
) -> RedisResult<(ConnectionInfo, Vec<Address>)> {
    let mut servers = seeds.to_vec();
    if let Some(seed) = seeds.first() {
        for (address, _) in known {
            servers.push(seed.clone().set_addr(place(seed.addr(), address)));
        }
    }
    // All at once: a silent server must not delay the others.
    let ask = |server: ConnectionInfo| -> ConnectAttempt<'static, (ConnectionInfo, Vec<Address>)> {
        Box::pin(async move {
            let asked = timeout(CONNECT, slots(server.clone())).await;
            let masters = parse(&asked.unwrap_or_else(|_| Err(silent()))?, host(server.addr()));
            if masters.is_empty() { Err(broken()) } else { Ok((server, masters)) }
        })
    };
    Race::to_servers(servers.into_iter().map(ask)).won().await
}

/// A server's answer to CLUSTER SLOTS.
async fn slots(server: ConnectionInfo) -> RedisResult<Value> {
    let mut connection = Client::open(server)?.get_multiplexed_async_connection().await?;
    redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await
}

/// Asks one server for a sign of life.
pub(super) async fn ping(seed: &ConnectionInfo, address: &Address) -> RedisResult<Value> {
    let info = seed.clone().set_addr(place(seed.addr(), address));
    let mut connection = Client::open(info)?.get_multiplexed_async_connection().await?;
    redis::cmd("PING").query_async(&mut connection).await
}

/// Subscribing once more changes nothing, and needs no other permission.
async fn lives(mut sink: PubSubSink, channel: &str) -> bool {
    matches!(timeout(CONNECT, sink.subscribe(channel)).await, Ok(Ok(())))
}

async fn open(
    seed: &ConnectionInfo,
    address: Address,
    channel: &str,
) -> RedisResult<MasterConnection> {
    let info = seed.clone().set_addr(place(seed.addr(), &address));
    let made = async {
        let (mut sink, stream) = Client::open(info)?.get_async_pubsub().await?.split();
        sink.subscribe(channel).await?;
        Ok(MasterConnection { address, sink, stream })
    };
    timeout(CONNECT, made).await.unwrap_or_else(|_| Err(silent()))
}

/// The address of another server, reached in the same way as `seed`.
fn place(seed: &ConnectionAddr, (host, port): &Address) -> ConnectionAddr {
    match seed.clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.clone(), *port),
    }
}

/// The host of an address; none for a socket of this machine.
pub(super) fn host(address: &ConnectionAddr) -> &str {
    match address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}

/// The masters in an answer to CLUSTER SLOTS: `{first slot, last, {host, port, ..}, replicas ..}`
/// for each range. If a server does not know its host, it is the one that was `asked`. A master
/// that the server cannot name (`?`) is left out.
pub(super) fn parse(slots: &Value, asked: &str) -> Vec<Address> {
    let Value::Array(ranges) = slots else { return Vec::new() };
    let mut masters: Vec<Address> = Vec::new();
    for range in ranges {
        let Value::Array(range) = range else { continue };
        let Some(Value::Array(master)) = range.get(2) else { continue };
        let [host, Value::Int(port), ..] = master.as_slice() else { continue };
        let host = text(host).filter(|host| !is_own(host)).unwrap_or_else(|| asked.to_owned());
        let Ok(port) = u16::try_from(*port) else { continue };
        if host == UNKNOWN {
            continue;
        }
        let master = (host, port);
        if !masters.contains(&master) {
            masters.push(master);
        }
    }
    masters
}

/// The host of a server whose address is not known, in an answer to CLUSTER SLOTS.
const UNKNOWN: &str = "?";

/// Does a server say of itself that it does not know its host?
fn is_own(host: &str) -> bool {
    ["", "0.0.0.0", "::"].contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::connection::{address, bulk, value};

    fn range(first: u16, host: &str, port: u16) -> String {
        let replica = format!("*2\r\n{}\r\n:1", bulk("replica"));
        format!("*4\r\n:{first}\r\n:9\r\n*3\r\n{host}\r\n:{port}\r\n{}\r\n{replica}", bulk("id"))
    }

    #[test]
    fn the_masters_stand_first_in_each_range() {
        let ranges = [range(0, &bulk("a"), 1), range(5, &bulk("b"), 2), range(7, &bulk("a"), 1)]
            .join("\r\n");
        let slots = value(&format!("*3\r\n{ranges}")).unwrap();
        assert_eq!(parse(&slots, "x"), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn a_server_that_does_not_know_its_host_is_the_one_that_was_asked() {
        for unknown in [bulk(""), bulk("0.0.0.0"), bulk("::"), "$-1".to_owned()] {
            let slots = value(&format!("*1\r\n{}", range(0, &unknown, 7))).unwrap();
            assert_eq!(parse(&slots, "seed"), [("seed".to_owned(), 7)]);
        }
        let ranges = [range(0, &bulk("?"), 7), range(9, &bulk("b"), 2)].join("\r\n");
        let slots = value(&format!("*2\r\n{ranges}")).unwrap();
        assert_eq!(parse(&slots, "seed"), [("b".to_owned(), 2)]);
    }

    #[test]
    fn what_is_no_answer_names_no_master() {
        for odd in ["+OK", "*0", "*1\r\n:1", "*1\r\n*2\r\n:1\r\n:2"] {
            assert!(parse(&value(odd).unwrap(), "x").is_empty(), "{odd}");
        }
    }

    #[test]
    fn other_servers_are_spoken_to_as_the_seed_is() {
        let at = |url: &str| {
            let seed = address::parse(url, None).unwrap();
            place(seed.addr(), &("b".to_owned(), 7001))
        };
        assert_eq!(at("redis://u:p@a:1"), ConnectionAddr::Tcp("b".to_owned(), 7001));
        #[cfg(feature = "tls")]
        assert!(matches!(
            at("rediss://u:p@a:1"),
            ConnectionAddr::TcpTls { host, port: 7001, insecure: false, .. } if host == "b"
        ));
    }
}
