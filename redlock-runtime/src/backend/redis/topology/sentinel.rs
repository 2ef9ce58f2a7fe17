//! The current master, as most of its sentinels name it.

use std::time::Duration;

use deadpool::managed::Manager as _;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{ConnectionInfo, RedisResult};
use deadpool_redis::sentinel::Pool;
use tokio::time::{sleep, timeout};

use super::majority::{is_majority, votes};
use super::sentinel_answer::{MasterAddress, PAUSE, epoch, master_address, named_by};
use super::sentinel_watch::{LedTo, SentinelWatch};
use crate::backend::Tls;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::connect::{ConnectAttempt, Race};
use crate::backend::redis::connection::host_lookup::HostLookup;
use crate::backend::redis::connection::source::{CONNECT, NO_LIMIT, Source};
use crate::backend::redis::connection::{address, dial, ended, unasked};
use crate::backend::redis::pubsub::{
    Listener, PubsubStream, broken, mailbox, silent, subscription,
};
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
        /// How the master is connected to, wherever it is.
        like: Box<ConnectionInfo>,
        lookup: HostLookup,
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
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let (name, sentinels) = Sentinels::each(urls, master, tls)?;
        Ok(Self::new(name, sentinels, options))
    }

    pub(crate) fn from_sentinel_pool(pool: Pool, index: usize, options: NodeOptions) -> Self {
        let name = format!("sentinel pool {index}");
        Self::new(name, Sentinels::Pool(pool), options)
    }
}

impl Sentinels {
    /// What to call the node, and its sentinels.
    pub(crate) fn each(
        urls: &[String],
        master: &str,
        tls: Option<&Tls>,
    ) -> Result<(String, Self), LockError> {
        let (master, like) = parse_master(master, tls)?;
        let name = format!("sentinel {master}");
        if urls.is_empty() {
            return Err(LockError::config(format!("{name}: no sentinel is named")));
        }
        let sentinels =
            urls.iter().map(|url| address::parse(url, tls)).collect::<Result<_, _>>()?;
        let (like, lookup) = (Box::new(like), HostLookup::default());
        Ok((name, Self::Each { sentinels, master, like, lookup, led_to: LedTo::default() }))
    }

    /// How to connect to the master that most sentinels name. One that was cut off may not have
    /// heard of a failover, and name a master that was replaced. `None`: only the caller's own pool
    /// can find it.
    pub(crate) async fn master(&self) -> Option<RedisResult<ConnectionInfo>> {
        let Self::Each { sentinels, master, like, lookup, .. } = self else { return None };
        let attempt = |sentinel| -> ConnectAttempt<'_, Named<'_>> {
            let named = named_by(sentinel, master, like, lookup);
            Box::pin(async move { Ok((sentinel, named.await?)) })
        };
        let race = Race::to_servers(sentinels.iter().map(attempt));
        let is_same = |(_, one): &Named<'_>, (_, other): &Named<'_>| one.addr() == other.addr();
        let found = async {
            let named = votes(race, sentinels.len(), |_| GRACE, is_same).await?;
            chosen(named, sentinels.len(), master, lookup).await
        };
        Some(timeout(CONNECT, found).await.unwrap_or_else(|_| Err(silent())))
    }

    /// Would a new connection lead to this master?
    async fn leads_to(&self, master: &MasterAddress) -> bool {
        let next = self.master().await.and_then(Result::ok);
        next.and_then(|next| master_address(next.addr())).as_ref() == Some(master)
    }
}

/// A sentinel, and how to connect to the master that it names, which has said that it is one.
type Named<'a> = (&'a ConnectionInfo, ConnectionInfo);

/// The master that most of all `sentinels` name. If there is none, the one that the latest failover
/// has made, as the sentinels know that have answered: those that were cut off may be more.
async fn chosen(
    named: Vec<Vec<Named<'_>>>,
    sentinels: usize,
    master: &str,
    lookup: &HostLookup,
) -> RedisResult<ConnectionInfo> {
    let is_clear = |named: &Vec<_>| is_majority(named.len(), sentinels);
    let is_open = named.len() > 1 && !named.iter().any(is_clear);
    let mut candidates = Vec::new();
    for same in named {
        let latest = if is_open { latest(&same, master, lookup).await } else { 0 };
        candidates.push((latest, same));
    }
    // Of equal ones the one that was named first.
    let best = candidates.into_iter().rev().max_by_key(|(latest, same)| (*latest, same.len()));
    let best = best.and_then(|(_, same)| same.into_iter().next());
    best.map(|(_, master)| master).ok_or_else(broken)
}

/// The highest epoch that one of these sentinels knows; zero if none tells.
async fn latest(named: &[Named<'_>], master: &str, lookup: &HostLookup) -> u64 {
    let asked = named.iter().map(|(sentinel, _)| timeout(EPOCH, epoch(sentinel, master, lookup)));
    let answers = together(asked.map(Box::pin).collect()).await.into_iter();
    // A sentinel that is silent, or fails, tells none.
    answers.flatten().flatten().max().unwrap_or_default()
}

impl Source for Sentinels {
    type Connection = MultiplexedConnection;

    /// Connects to a server that has just reported to be a master: sentinels that have not heard of
    /// a failover name the old one.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let begun = CLOCK.now();
        match (self, self.master().await) {
            (Self::Each { lookup, led_to, .. }, Some(master)) => {
                let master = master?;
                match dial::connect(&master, lookup).await {
                    Err(error) => Err(Box::pin(unasked::explained(master.addr(), error)).await),
                    made => {
                        led_to.note(master.addr(), begun);
                        made
                    }
                }
            }
            (Self::Pool(pool), _) => {
                let mut connection = pool.manager().create().await?;
                connection.set_response_timeout(NO_LIMIT);
                Ok(connection)
            }
            (Self::Each { .. }, None) => Err(broken()),
        }
    }

    /// Not through a pool, which does not tell its sentinels.
    async fn moved(&self) -> Moment {
        let Self::Each { sentinels, master, lookup, led_to, .. } = self else {
            return std::future::pending().await;
        };
        let mut watch = SentinelWatch::new(sentinels, master, lookup);
        loop {
            sleep(PAUSE).await;
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
        match (self, self.master().await) {
            (Self::Each { lookup, .. }, Some(master)) => {
                let pubsub = dial::listen(&master?, lookup).await?;
                subscription::subscribe(pubsub, listener).await.map(Some)
            }
            _ => mailbox::subscribe(self.connect().await?, listener).await,
        }
    }
}

/// The name of the master, and how to connect to it where it is.
fn parse_master(master: &str, tls: Option<&Tls>) -> Result<(String, ConnectionInfo), LockError> {
    if !master.contains("://") {
        if master.is_empty() || master.contains(|c: char| c.is_whitespace() || c == '@') {
            return Err(LockError::config(
                "`master_name` is what the sentinels call the master, as in `mymaster`, or a URL \
                 with that name as its host: `redis://user:password@mymaster/0`",
            ));
        }
        if tls.is_some() {
            return Err(LockError::config(format!(
                "the master with the bare name `{master}` would be spoken to without TLS, though \
                 `tls` is set; write `rediss://{master}`"
            )));
        }
        let like = address::bare(master).map_err(|error| LockError::config(error.to_string()))?;
        return Ok((master.to_owned(), like));
    }
    let like = address::parse(master, tls)?;
    match master_address(like.addr()) {
        Some((name, _)) => Ok((name, like)),
        None => Err(LockError::config(
            "a master that sentinels watch has no unix socket; write `mymaster`, or a URL with \
             that name as its host: `redis://user:password@mymaster/0`",
        )),
    }
}

#[cfg(test)]
mod tests;
