//! The current master, as most of its sentinels name it.

use std::time::Duration;

use deadpool::managed::Manager as _;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::sentinel::SentinelClient;
use deadpool_redis::redis::{self, Client, ConnectionAddr, ConnectionInfo, RedisResult};
use deadpool_redis::sentinel::{Pool, SentinelNodeConnectionInfo, SentinelServerType, TlsMode};
use tokio::time::{sleep, timeout};

use super::majority::{is_majority, votes};
use super::sentinel_watch::{self, LedTo, MasterAddress, SentinelWatch, master_address};
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::connect::{ConnectAttempt, Race};
use crate::backend::redis::connection::source::{NO_LIMIT, Source};
use crate::backend::redis::connection::{address, ended, unasked};
use crate::backend::redis::pubsub::{Listener, PubsubStream, broken, mailbox, subscription};
use crate::backend::redis::{NodeOptions, RedisNode};
use crate::clock::Moment;
use crate::error::LockError;
use crate::together::together;

/// How long the other sentinels have once one has named a master. Each of them takes some seven
/// round trips. Only sentinels that are silent, or disagree, use that time up.
const GRACE: Duration = Duration::from_secs(1);
/// How long the sentinels may take to say which of them knows of the latest failover.
const EPOCH: Duration = Duration::from_millis(500);

/// Asks the sentinels anew for every connection.
pub(crate) enum Sentinels {
    /// All of them at once. A silent sentinel must not delay the others.
    Each {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        login: Option<SentinelNodeConnectionInfo>,
        led_to: LedTo,
    },
    /// As the caller's own pool does it: in the order of its list.
    Pool(Pool),
}

impl RedisNode<Sentinels> {
    /// `master` is the name that the sentinels use, or a URL with that name in the place of the
    /// host.
    pub(crate) fn watched(
        urls: &[String],
        master: &str,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let (name, sentinels) = Sentinels::each(urls, master)?;
        Ok(Self::new(name, sentinels, options))
    }

    pub(crate) fn from_sentinel_pool(pool: Pool, index: usize, options: NodeOptions) -> Self {
        let name = format!("sentinel pool {index}");
        Self::new(name, Sentinels::Pool(pool), options)
    }
}

/// A client that knows one sentinel.
fn ask(
    sentinel: ConnectionInfo,
    master: String,
    login: Option<SentinelNodeConnectionInfo>,
) -> RedisResult<SentinelClient> {
    let kind = SentinelServerType::Master.into();
    let to_master = login.map(redis::sentinel::SentinelNodeConnectionInfo::from);
    let to_master = to_master.unwrap_or_default().set_tcp_settings(address::tcp_settings());
    SentinelClient::build(vec![sentinel], master, Some(to_master), kind)
}

impl Sentinels {
    /// What to call the node, and its sentinels.
    pub(crate) fn each(urls: &[String], master: &str) -> Result<(String, Self), LockError> {
        let (master, login) = parse_master(master)?;
        let name = format!("sentinel {master}");
        if urls.is_empty() {
            return Err(LockError::config(format!("{name}: no sentinel is named")));
        }
        let sentinels =
            urls.iter().map(|url| address::parse(url, None)).collect::<Result<Vec<_>, _>>()?;
        for sentinel in &sentinels {
            ask(sentinel.clone(), master.clone(), login.clone())
                .map_err(|error| LockError::config(format!("{name}: {error}")))?;
        }
        Ok((name, Self::Each { sentinels, master, login, led_to: LedTo::default() }))
    }

    /// The master that most sentinels name. One that was cut off may not have heard of a failover,
    /// and name a master that was replaced. `None`: only the caller's own pool can find it.
    pub(crate) async fn master(&self) -> Option<RedisResult<Client>> {
        let Self::Each { sentinels, master, login, .. } = self else { return None };
        let attempt = |sentinel| -> ConnectAttempt<'_, Named<'_>> {
            let asked = ask(ConnectionInfo::clone(sentinel), master.clone(), login.clone());
            Box::pin(async move { Ok((sentinel, asked?.async_get_client().await?)) })
        };
        let race = Race::to_servers(sentinels.iter().map(attempt));
        let is_same = |(_, one): &Named<'_>, (_, other): &Named<'_>| {
            one.get_connection_info().addr() == other.get_connection_info().addr()
        };
        Some(match votes(race, sentinels.len(), |_| GRACE, is_same).await {
            Ok(named) => chosen(named, sentinels.len(), master).await,
            Err(error) => Err(error),
        })
    }

    /// Would a new connection lead to this master?
    async fn leads_to(&self, master: &MasterAddress) -> bool {
        let next = self.master().await.and_then(Result::ok);
        next.and_then(|next| master_address(next.get_connection_info().addr())).as_ref()
            == Some(master)
    }
}

/// A sentinel, and a client of the master that it names, which has said that it is one.
type Named<'a> = (&'a ConnectionInfo, Client);

/// The master that most of all `sentinels` name. If there is none, the one that the latest failover
/// has made, as the sentinels know that have answered: those that were cut off may be more.
async fn chosen(named: Vec<Vec<Named<'_>>>, sentinels: usize, master: &str) -> RedisResult<Client> {
    let is_clear = |named: &Vec<_>| is_majority(named.len(), sentinels);
    let is_open = named.len() > 1 && !named.iter().any(is_clear);
    let mut candidates = Vec::new();
    for same in named {
        let latest = if is_open { latest(&same, master).await } else { 0 };
        candidates.push((latest, same));
    }
    // Of equal ones the one that was named first.
    let best = candidates.into_iter().rev().max_by_key(|(latest, same)| (*latest, same.len()));
    let best = best.and_then(|(_, same)| same.into_iter().next());
    best.map(|(_, master)| master).ok_or_else(broken)
}

/// The highest epoch that one of these sentinels knows; zero if none tells.
async fn latest(named: &[Named<'_>], master: &str) -> u64 {
    let asked = named.iter().map(|(sentinel, _)| timeout(EPOCH, epoch(sentinel, master)));
    let answers = together(asked.map(Box::pin).collect()).await.into_iter();
    // A sentinel that is silent, or fails, tells none.
    answers.flatten().flatten().max().unwrap_or_default()
}

/// The epoch of the configuration that a sentinel has of this master: each failover has a higher
/// one.
async fn epoch(sentinel: &ConnectionInfo, master: &str) -> RedisResult<u64> {
    let mut connection = sentinel_watch::connect(sentinel).await?;
    let known = sentinel_watch::fields(&mut connection, master).await?.unwrap_or_default();
    Ok(known.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default())
}

impl Source for Sentinels {
    type Connection = MultiplexedConnection;

    /// Connects to a server that has just reported to be a master: sentinels that have not heard of
    /// a failover name the old one.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let begun = CLOCK.now();
        if let Some(master) = self.master().await {
            let (settings, master) = (address::settings(), master?);
            let address = master.get_connection_info().addr();
            return match master.get_multiplexed_async_connection_with_config(&settings).await {
                Err(error) => Err(Box::pin(unasked::explained(address, error)).await),
                made => {
                    if let Self::Each { led_to, .. } = self {
                        led_to.note(address, begun);
                    }
                    made
                }
            };
        }
        let Self::Pool(pool) = self else { return Err(broken()) };
        let mut connection = pool.manager().create().await?;
        connection.set_response_timeout(NO_LIMIT);
        Ok(connection)
    }

    /// Not through a pool, which does not tell its sentinels.
    async fn moved(&self) -> Moment {
        let Self::Each { sentinels, master, led_to, .. } = self else {
            return std::future::pending().await;
        };
        let mut watch = SentinelWatch::new(sentinels, master);
        loop {
            sleep(sentinel_watch::PAUSE).await;
            let Some(latest) = led_to.latest() else { continue };
            let Some(named) = watch.named().await else { continue };
            // A new connection has to lead there. If this client cannot reach that master, or it
            // does not say that it is one, nothing would be won.
            if named != latest && !self.leads_to(&named).await {
                continue;
            }
            if let Some(begun) = led_to.leave_others(&named) {
                return begun;
            }
        }
    }

    fn has_ended(connection: &mut MultiplexedConnection) -> bool {
        ended::has_ended(connection)
    }

    fn may_be_named(&self) -> bool {
        matches!(self, Self::Each { .. })
    }

    fn channel(&self, prefix: &str) -> String {
        match self {
            Self::Each { .. } => subscription::channel(),
            Self::Pool(_) => mailbox::channel(prefix),
        }
    }

    async fn subscribe(&self, listener: Listener) -> RedisResult<Option<PubsubStream>> {
        let Some(master) = self.master().await else {
            return mailbox::subscribe(self.connect().await?, listener).await;
        };
        subscription::subscribe(master?.get_async_pubsub().await?, listener).await.map(Some)
    }
}

/// The name of the master, and how to log in there.
fn parse_master(master: &str) -> Result<(String, Option<SentinelNodeConnectionInfo>), LockError> {
    if !master.contains("://") {
        if master.is_empty() || master.contains(|c: char| c.is_whitespace() || c == '@') {
            return Err(LockError::config(
                "`master_name` is what the sentinels call the master, as in `mymaster`, or a URL \
                 with that name as its host: `redis://user:password@mymaster/0`",
            ));
        }
        return Ok((master.to_owned(), None));
    }
    let info = address::parse(master, None)?;
    let (name, tls_mode) = match info.addr() {
        ConnectionAddr::Tcp(host, _) => (host.clone(), None),
        ConnectionAddr::TcpTls { host, .. } => (host.clone(), Some(TlsMode::Secure)),
        _ => return Err(LockError::config("a master that sentinels watch has no unix socket")),
    };
    let redis_connection_info = Some(info.redis_settings().clone().into());
    Ok((name, Some(SentinelNodeConnectionInfo { tls_mode, redis_connection_info })))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::super::fake_server::fake_server;
    use super::*;
    use crate::backend::redis::connection::{IdentifiedSource, bulk};
    use crate::backend::redis::health::ServerIdentity;

    fn message(urls: &[&str], master: &str) -> String {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        let node = RedisNode::watched(&urls, master, NodeOptions::default());
        node.map(|node| format!("{node:?}")).unwrap_err().to_string()
    }

    #[test]
    fn a_master_is_a_name_or_a_url_with_it() {
        let (name, login) = parse_master("mymaster").unwrap();
        assert_eq!((name.as_str(), login.is_none()), ("mymaster", true));
        let (name, login) = parse_master("redis://locks:s3cret@my-Master.1/2").unwrap();
        let login = login.unwrap().redis_connection_info.unwrap();
        assert_eq!(name, "my-Master.1");
        assert_eq!((login.username.as_deref(), login.db), (Some("locks"), 2));
        assert_eq!(login.password.as_deref(), Some("s3cret"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_master_with_tls_is_spoken_to_by_tls() {
        for (master, is_secure) in [("rediss://mymaster", true), ("redis://mymaster", false)] {
            let login = parse_master(master).unwrap().1.unwrap();
            assert_eq!(matches!(login.tls_mode, Some(TlsMode::Secure)), is_secure, "{master}");
        }
    }

    /// Far sentinels that know of a failover, and a near one that was cut off from them.
    #[tokio::test(start_paused = true)]
    async fn a_near_sentinel_does_not_decide_before_far_ones_have_answered() {
        let attempt = |(millis, said): (u64, char)| -> ConnectAttempt<'static, char> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(said)
            })
        };
        let race = Race::to_servers([(5, 'a'), (560, 'b'), (980, 'b')].map(attempt));
        let said = votes(race, 3, |_| GRACE, |one, other| one == other).await.unwrap();
        assert!(said.iter().any(|same| is_majority(same.len(), 3)), "{said:?}");
    }

    /// Its port. `named`: the port of the master that it names as a sentinel; without, it is one.
    async fn server(named: Option<Arc<AtomicU16>>) -> u16 {
        let answer = move |command: &str| match &named {
            Some(port) if command.contains("MASTERS") => {
                let port = port.load(Ordering::Relaxed).to_string();
                let flat = ["name", "m", "flags", "master", "ip", "127.0.0.1", "port", &port];
                format!("*1\r\n*8\r\n{}\r\n", flat.map(bulk).join("\r\n"))
            }
            Some(_) if command.contains("ROLE") => {
                format!("*2\r\n{}\r\n*1\r\n{}\r\n", bulk("sentinel"), bulk("m"))
            }
            None if command.contains("ROLE") => {
                format!("*3\r\n{}\r\n:0\r\n*0\r\n", bulk("master"))
            }
            _ => "+OK\r\n".to_owned(),
        };
        fake_server(answer).await
    }

    /// The client may not ask the servers who they are.
    #[tokio::test]
    async fn a_connection_to_the_new_master_does_not_hide_one_to_the_old() {
        let (old, new) = (server(None).await, server(None).await);
        let named = Arc::new(AtomicU16::new(old));
        let sentinel = format!("redis://127.0.0.1:{}", server(Some(Arc::clone(&named))).await);
        let (_, sentinels) = Sentinels::each(&[sentinel], "m").unwrap();
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(sentinels, "n".into(), &identity);
        let older = source.connect().await.unwrap();
        named.store(new, Ordering::Relaxed);
        let newer = source.connect().await.unwrap();
        let moved = timeout(Duration::from_secs(20), source.inner.moved()).await;
        identity.leave(moved.expect("a connection leads to the old master"));
        assert!(older.met().superseded.is_set() && !newer.met().superseded.is_set());
    }

    #[test]
    fn what_cannot_work_says_what_to_write() {
        assert!(message(&[], "mymaster").contains("sentinel mymaster: no sentinel is named"));
        assert!(message(&["127.0.0.1:26379"], "mymaster").contains("it needs a scheme"));
        assert!(message(&["redis://127.0.0.1"], "").contains("`mymaster`"));
        assert!(message(&["redis://127.0.0.1"], "unix:///run/redis").contains("unix socket"));
    }

    #[test]
    fn no_message_shows_a_password() {
        let urls = ["redis://:s3cret@h".to_owned()];
        let node = RedisNode::watched(&urls, "redis://u:s3cret@m", NodeOptions::default());
        let mut shown = format!("{:?}", node.unwrap());
        for master in ["u:s3cret@m", "redis://u:s3cret@m:port", "http://u:s3cret@m"] {
            shown += &message(&["redis://127.0.0.1"], master);
        }
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
