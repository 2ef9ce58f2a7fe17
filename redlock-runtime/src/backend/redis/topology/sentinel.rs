//! The current master, as most of its sentinels name it.

use std::time::Duration;

use deadpool::managed::Manager as _;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{ConnectionInfo, RedisResult};
use deadpool_redis::sentinel::Pool;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::named_server::of_server;
use super::sentinel_answer::{PAUSE, SentinelQuestion, master_address};
use super::sentinel_vote::{MasterAddress, Namings};
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

/// How long the other sentinels have once one has named a master. Each of them takes some seven
/// round trips. Only sentinels that are silent, or disagree, use that time up.
const GRACE: Duration = Duration::from_secs(1);
/// After this many rounds in which most sentinels have named another master, connections are left
/// also if that one cannot be reached.
const ROUNDS: u32 = 3;
/// How long a new connection to that one may take, in each round.
const REACH: Duration = Duration::from_secs(2);

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
        let sentinels: Vec<ConnectionInfo> =
            urls.iter().map(|url| address::parse(url, tls)).collect::<Result<_, _>>()?;
        let is_twice =
            |at: &usize| sentinels[..*at].iter().any(|one| one.addr() == sentinels[*at].addr());
        if let Some(at) = (0..sentinels.len()).find(is_twice) {
            let sentinel = address::name(&sentinels[at]);
            return Err(LockError::config(format!(
                "{name}: the sentinel `{sentinel}` is named twice, and would have two votes; name \
                 each of them once"
            )));
        }
        let (like, lookup) = (Box::new(like), HostLookup::default());
        Ok((name, Self::Each { sentinels, master, like, lookup, led_to: LedTo::default() }))
    }

    /// How to connect to the master that most sentinels name. One that was cut off may not have
    /// heard of a failover, and name a master that was replaced. `None`: only the caller's own pool
    /// can find it.
    pub(crate) async fn master(&self) -> Option<RedisResult<ConnectionInfo>> {
        let Self::Each { sentinels, master, like, lookup, .. } = self else { return None };
        let namings = &Namings::of(sentinels.len());
        let attempt = |(number, sentinel)| -> ConnectAttempt<'_, ConnectionInfo> {
            let question = SentinelQuestion { sentinel, number, master, like, lookup, namings };
            Box::pin(async move { question.answer().await })
        };
        let race = Race::to_servers(sentinels.iter().enumerate().map(attempt));
        let found = timeout(CONNECT, chosen(race, namings)).await;
        Some(found.unwrap_or_else(|_| Err(silent())))
    }

    /// Would a new connection lead to this master?
    async fn leads_to(&self, master: &MasterAddress) -> bool {
        let next = timeout(REACH, self.master()).await.ok().flatten().and_then(Result::ok);
        next.and_then(|next| master_address(next.addr())).as_ref() == Some(master)
    }
}

/// The master that most of all sentinels name. If there is none, the one that the latest failover
/// has made, as the sentinels know that have answered within the grace: those that were cut off may
/// be more. A master that was replaced is never taken, however long its successor is silent.
async fn chosen(
    mut race: Race<'_, ConnectionInfo>,
    namings: &Namings,
) -> RedisResult<ConnectionInfo> {
    let place = |master: &ConnectionInfo| master_address(master.addr()).unwrap_or_default();
    let standing = |master: &&ConnectionInfo| namings.standing(&place(master));
    let mut confirmed = vec![race.won().await?];
    let grace_ends = Instant::now() + GRACE;
    loop {
        // Of equal ones the first.
        let Some(best) = confirmed.iter().rev().max_by_key(standing) else { return Err(broken()) };
        let is_replaced = || namings.is_replaced(&place(best));
        let is_grace_over = Instant::now() >= grace_ends;
        if standing(&best).has_majority || is_grace_over && !is_replaced() {
            return Ok(best.clone());
        }
        let look_at = if is_grace_over { Instant::now() + PAUSE } else { grace_ends };
        match timeout_at(look_at, race.won()).await {
            Ok(Ok(next)) => confirmed.push(next),
            // The others have failed, after they may have named another one.
            Ok(Err(error)) if is_replaced() => return Err(error),
            Ok(Err(_)) => return Ok(best.clone()),
            // A sentinel may name another one by now.
            Err(_) => {}
        }
    }
}

impl Source for Sentinels {
    type Connection = MultiplexedConnection;

    /// Each connection asks all sentinels, which have to agree on a failover meanwhile.
    const PAUSE_DOUBLINGS: u32 = 5;

    /// Connects to a server that has just reported to be a master: sentinels that have not heard of
    /// a failover name the old one.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let begun = CLOCK.now();
        match (self, self.master().await) {
            (Self::Each { lookup, led_to, .. }, Some(master)) => {
                let master = master?;
                match dial::connect(&master, lookup).await {
                    Err(error) => {
                        let explained = unasked::explained(master.addr(), lookup, error);
                        Err(of_server(master.addr(), Box::pin(explained).await))
                    }
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
        let mut rounds = 0;
        loop {
            sleep(PAUSE).await;
            let Some(latest) = led_to.latest() else { continue };
            let Some(named) = watch.named().await else { continue };
            rounds = if named == latest { 0 } else { rounds + 1 };
            // A new connection should lead there. A master that this client cannot reach, or that
            // does not say yet that it is one, is waited for in the first rounds.
            if named != latest && rounds < ROUNDS && !self.leads_to(&named).await {
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
