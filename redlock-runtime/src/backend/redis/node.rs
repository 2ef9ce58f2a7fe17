//! The three commands of a lock on one Redis server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Pool;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::behind::Behind;
use super::diagnosis::diagnose;
use super::exchange::{Call, Failure, exchange, is_passing, no_connection, no_reply, unheard};
use super::health::Health;
use super::lane::Stem;
use super::link::Link;
use super::notices::Notices;
use super::offset::Sample;
use super::presence::{CLOCK, Presence, Watched};
use super::release::Release;
use super::replicas::{Lanes, MinReplicas};
use super::script::{ACQUIRE, RAISE, RENEW};
use super::source::{Direct, Source};
use super::watch::HandOvers;
use super::{address, probe, reply};
use crate::backend::{Acquired, Awaited, Backend, Claim, Duty, Found, Line, Reply, Tls, Told};
use crate::clock::Moment;
use crate::denial::Denial;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::report::Reports;
use crate::shield::tell;

/// How long a fencing counter outlives a lease whose fencing tokens were reserved. The mark of the
/// slot is behind them for longer.
const COUNTER_LIFE: Duration = Duration::from_secs(10);

/// One Redis server. Two connections: renewals never queue behind the commands of callers.
pub(crate) struct RedisNode<S: Source = Direct> {
    pub(super) core: Arc<Core<S>>,
    /// For the commands of callers.
    pub(super) calls: Arc<Link<Watched<S>>>,
    /// The runtime on which `calls` is at home; `None`: that of whoever uses it.
    pub(super) home: Option<Handle>,
    /// `None`: a lane to a node.
    pub(super) stem: Option<Stem<S>>,
}

/// What a node and its lanes share.
pub(super) struct Core<S: Source> {
    pub(super) name: String,
    pub(super) health: Health,
    pub(super) presence: Arc<Presence>,
    pub(super) source: Arc<Watched<S>>,
    pub(super) renewals: Link<Watched<S>>,
    pub(super) replicated: Option<(MinReplicas, Lanes<Watched<S>>)>,
    pub(super) behind: Behind,
    pub(super) notices: Arc<Notices>,
    pub(super) hand_overs: HandOvers,
    /// This user may not touch the line of a lock.
    pub(super) line_denial: Denial,
}

/// What is wanted of a node beside its commands.
#[derive(Debug, Clone)]
pub(crate) struct NodeOptions {
    /// The name of the client.
    pub(crate) client: Arc<str>,
    pub(crate) reports: Arc<Reports>,
    /// Begins the keys of the locks.
    pub(crate) prefix: Arc<str>,
    /// Find out whether it was restarted, and whether this key outlived that.
    pub(crate) roll_key: Option<Arc<str>>,
    pub(crate) min_replicas: Option<MinReplicas>,
}

#[cfg(test)]
impl Default for NodeOptions {
    fn default() -> Self {
        let reports = Arc::new(Reports::new(CLOCK));
        let (client, prefix) = ("test".into(), "".into());
        Self { client, reports, prefix, roll_key: None, min_replicas: None }
    }
}

impl RedisNode {
    pub(crate) fn open(
        url: &str,
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let (name, pool, client) = address::open(url, tls)?;
        Ok(Self::new(name, Direct::new(pool, Some(client)), options))
    }

    /// `pool` is the source of connections; its size and recycling do not matter.
    pub(crate) fn from_pool(pool: &Pool, index: usize, options: NodeOptions) -> Self {
        Self::new(format!("redis pool {index}"), Direct::new(pool.clone(), None), options)
    }
}

impl<S: Source> RedisNode<S> {
    pub(super) fn new(name: String, source: S, options: NodeOptions) -> Self {
        let presence = Arc::new(Presence::new(name.clone(), options.roll_key));
        let notices = Arc::new(Notices::new(source.channel(&options.prefix)));
        let shown = connection_name(&options.client);
        let source = Watched { source, name: shown, presence: Arc::clone(&presence) };
        let source = Arc::new(source);
        let lanes = |replicas| (replicas, Lanes::new(Arc::clone(&source)));
        let calls = Arc::new(Link::new(Arc::clone(&source)));
        let NodeOptions { client, reports, .. } = options;
        let core = Core {
            health: Health::new(&name, client, reports, S::LEADS_TO_ONE),
            name,
            presence,
            renewals: Link::of(Arc::clone(&source), &RENEW),
            replicated: options.min_replicas.map(lanes),
            source,
            behind: Behind::default(),
            notices,
            hand_overs: HandOvers::default(),
            line_denial: Denial::default(),
        };
        Self { core: Arc::new(core), calls, home: None, stem: Some(Stem::default()) }
    }
}

impl<S: Source> fmt::Debug for RedisNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("name", &self.core.name).finish_non_exhaustive()
    }
}

impl<S: Source> RedisNode<S> {
    async fn take(
        &self,
        link: &Link<Watched<S>>,
        claim: &Claim,
        within: Duration,
    ) -> Result<Acquired, Failure> {
        let replicas = self.core.replicated.as_ref().map(|(replicas, _)| *replicas);
        let call = Call { replicas, ..acquire(claim) };
        let unheard = |loan| self.release_behind(loan, claim);
        let answer =
            exchange(&self.core.health, link, &call, within, reply::acquired, unheard).await?;
        self.hear(answer.found.micros, answer.sent);
        match answer.found.found {
            Acquired::Refused { holder, free_in, .. } => {
                let was_cut = answer.was_cut;
                Ok(Acquired::Refused { holder, free_in, was_cut, is_split: false })
            }
            Acquired::Granted { fencing_token, .. } => {
                match self.shortage(replicas, answer.confirmed) {
                    None => Ok(Acquired::Granted { fencing_token, was_cut: answer.was_cut }),
                    // It stands on the master: given back like a lock that nobody knows of.
                    Some((error, is_final)) => {
                        answer.loan.into_iter().for_each(unheard);
                        Err(Failure::new(error, true, is_final))
                    }
                }
            }
        }
    }

    /// Why a write does not count: too few replicas have it. The flag: it will not get better.
    fn shortage(
        &self,
        replicas: Option<MinReplicas>,
        confirmed: RedisResult<u32>,
    ) -> Option<(NodeError, bool)> {
        let replicas = replicas?;
        match confirmed {
            Ok(count) if count >= replicas.needed => None,
            Ok(count) => {
                let message = replicas.shortage(count);
                Some((NodeError::new(&self.core.name, NodeErrorKind::NoReplicas, message), false))
            }
            Err(error) => {
                let why = diagnose(&self.core.name, &error);
                Some((why.error, why.is_final))
            }
        }
    }

    /// Learns from the server's time, which every answer to an acquire or a renewal brings.
    pub(super) fn hear(&self, micros: i64, sent: Moment) {
        self.core.presence.hear(Sample { micros, sent, received: CLOCK.now() });
    }
}

impl<S: Source> Backend for RedisNode<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move {
            if self.core.behind.is_pending(&claim.owner) {
                let message = "the clean-up of an unanswered acquire is still on its way";
                let error = NodeError::new(&self.core.name, NodeErrorKind::Refused, message);
                return Err(Failure::new(error, false, false).into());
            }
            let Some((_, lanes)) = &self.core.replicated else {
                return Ok(self.take(&self.calls, claim, within).await?);
            };
            let end = Instant::now() + within;
            match tokio::time::timeout_at(end, lanes.take()).await {
                Ok(lane) => Ok(Box::pin(self.take(&lane.link, claim, end - Instant::now())).await?),
                Err(_) => {
                    Err(no_reply(&self.core.name, "no free connection", within, false).into())
                }
            }
        })
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        Box::pin(async move {
            let (mark, fencing_token) = (claim.key.mark_key(), fencing_token.to_string());
            let keys = [claim.key.redis_key(), &mark];
            let call = Call::new(&RAISE, &keys, &[claim.owner.as_str(), &fencing_token]);
            Ok(exchange(&self.core.health, &self.calls, &call, within, reply::found, unheard)
                .await?
                .found)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            // The time for replicas is part of the time for the answer.
            let core = &self.core;
            let replicas = core.replicated.as_ref().map(|(replicas, _)| MinReplicas {
                within: replicas.within.min(within / 2),
                ..*replicas
            });
            let call = Call { replicas, ..renewal(claims) };
            let decode = |value: &Value| reply::renewed(value, claims.len());
            let answer =
                exchange(&core.health, &core.renewals, &call, within, decode, unheard).await?;
            self.hear(answer.found.micros, answer.sent);
            let shortage = self.shortage(replicas, answer.confirmed);
            if let Some((error, _)) = &shortage {
                tell!(debug, %error, "renewals were not replicated, they are tried again");
            }
            // A renewal that a failover may forget is not one to rely on.
            let relied_on = |found| (shortage.is_none() || found != Found::Ours).then_some(found);
            Ok(answer.found.found.into_iter().map(relied_on).collect())
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            self.core.behind.over(&claim.owner);
            self.core.let_go(&self.calls, Release::of(claim), within).await
        })
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let verdict = tokio::time::timeout_at(end, async {
                // Both ahead of their first use: the renewal of a short lease has no time to
                // connect.
                let (loan, renewals) =
                    tokio::join!(self.calls.borrow(), self.core.renewals.borrow());
                let mut loan = loan?;
                let core = &self.core;
                // The restart guard asks each connection itself.
                let met = |info: &str| {
                    if !core.presence.is_asking() {
                        core.health.meet(info);
                    }
                };
                let verdict = probe::probe::<S>(&core.name, &mut loan.connection, &met).await;
                renewals?;
                if verdict.is_err() {
                    self.calls.discard(&loan);
                }
                verdict
            });
            let failure = match verdict.await {
                Ok(Ok(None)) => {
                    self.core.health.heard();
                    return Ok(());
                }
                Ok(Ok(Some(unfit))) => Failure::new(unfit, false, true),
                Ok(Err(error)) => {
                    let why = diagnose(&self.core.name, &error);
                    let is_final = why.is_final && !is_passing::<S>(why.error.kind());
                    Failure::new(why.error, false, is_final)
                }
                Err(_) => {
                    if self.calls.is_connected() {
                        no_reply(&self.core.name, "no reply", within, false)
                    } else {
                        no_connection(&self.core.name, within, false)
                    }
                }
            };
            self.core.health.failed_at_startup(&failure.error);
            Err(failure.into())
        })
    }

    fn ask_notice<'a>(
        &'a self,
        claim: &'a Claim,
        told: Told,
        within: Duration,
    ) -> Option<Reply<'a, Awaited>> {
        Some(Box::pin(self.await_release(claim, told, within)))
    }

    fn forgo_notice<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(self.core.let_go(&self.calls, Release::leaving(claim), within))
    }

    fn duty(&self) -> Option<Duty> {
        self.begin_duty()
    }

    fn line(&self) -> Option<&dyn Line> {
        self.core.replicated.is_none().then_some(self)
    }

    fn lane(&self) -> Option<Arc<dyn Backend>> {
        self.lane_here()
    }
}

/// A server takes no spaces in it, and nothing but ASCII.
fn connection_name(client: &str) -> Arc<str> {
    let fitting = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    format!("redlock:{}", client.chars().map(fitting).collect::<String>()).into()
}

fn acquire(claim: &Claim) -> Call {
    let (mark, counter) = (claim.key.mark_key(), claim.key.fence_key());
    let (expire, life) = (claim.expire.as_millis().to_string(), counter_life(claim));
    let keys = [claim.key.redis_key(), &mark, &counter];
    Call::new(&ACQUIRE, &keys, &[claim.owner.as_str(), &expire, &life])
}

pub(super) fn renewal(claims: &[Claim]) -> Call {
    let keys: Vec<&str> = claims.iter().map(|claim| claim.key.redis_key()).collect();
    let expires: Vec<String> =
        claims.iter().map(|claim| claim.expire.as_millis().to_string()).collect();
    let leases = claims.iter().zip(&expires);
    let args: Vec<&str> =
        leases.flat_map(|(claim, expire)| [claim.owner.as_str(), expire.as_str()]).collect();
    Call::new(&RENEW, &keys, &args)
}

pub(super) fn counter_life(claim: &Claim) -> String {
    (COUNTER_LIFE + claim.expire).as_millis().to_string()
}
