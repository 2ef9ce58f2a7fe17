//! The three commands of a lock on one Redis server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Pool;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::commands::{
    ACQUIRE, Failure, RAISE, RENEW, Release, ScriptCall, is_passing, no_connection, no_reply,
    on_abandoned, send_script,
};
use super::connection::{
    Direct, LocalConnections, MinReplicas, ReplicaConnections, SharedConnection, Source, diagnose,
};
use super::health::{CLOCK, Health, IdentifiedSource, Sample, ServerIdentity};
use super::pending_undo::PendingUndos;
use super::pubsub::{HandoverWatchdog, Registry};
use crate::backend::redis::commands::reply;
use crate::backend::redis::connection::address;
use crate::backend::redis::health::startup_check;
use crate::backend::tls::Tls;
use crate::backend::{
    Acquired, BackgroundTask, Claim, FifoQueue, Found, HintRegistration, LockBackend, OnRelease,
    Reply,
};
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
    pub(crate) core: Arc<Core<S>>,
    /// For the commands of callers.
    pub(crate) calls: Arc<SharedConnection<IdentifiedSource<S>>>,
    /// The runtime on which `calls` is at home; `None`: that of whoever uses it.
    pub(crate) home: Option<Handle>,
    /// `None`: a lane to a node.
    pub(crate) stem: Option<LocalConnections<S>>,
}

/// What a node and its lanes share.
pub(crate) struct Core<S: Source> {
    pub(crate) name: String,
    pub(crate) health: Health,
    pub(crate) identity: Arc<ServerIdentity>,
    pub(crate) source: Arc<IdentifiedSource<S>>,
    pub(crate) renewals: SharedConnection<IdentifiedSource<S>>,
    pub(crate) replicated: Option<(MinReplicas, ReplicaConnections<IdentifiedSource<S>>)>,
    pub(crate) behind: PendingUndos,
    pub(crate) registry: Arc<Registry>,
    pub(crate) handover_watchdog: HandoverWatchdog,
    /// This user may not touch the line of a lock.
    pub(crate) queue_denial: Denial,
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
    pub(crate) fn new(name: String, source: S, options: NodeOptions) -> Self {
        let identity = Arc::new(ServerIdentity::new(name.clone(), options.roll_key));
        let registry = Arc::new(Registry::new(source.channel(&options.prefix)));
        let shown = connection_name(&options.client);
        let source = IdentifiedSource { source, name: shown, identity: Arc::clone(&identity) };
        let source = Arc::new(source);
        let lanes = |replicas| (replicas, ReplicaConnections::new(Arc::clone(&source)));
        let calls = Arc::new(SharedConnection::new(Arc::clone(&source)));
        let NodeOptions { client, reports, .. } = options;
        let core = Core {
            health: Health::new(&name, client, reports, S::LEADS_TO_ONE),
            name,
            identity,
            renewals: SharedConnection::of(Arc::clone(&source), &RENEW),
            replicated: options.min_replicas.map(lanes),
            source,
            behind: PendingUndos::default(),
            registry,
            handover_watchdog: HandoverWatchdog::default(),
            queue_denial: Denial::default(),
        };
        Self { core: Arc::new(core), calls, home: None, stem: Some(LocalConnections::default()) }
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
        link: &SharedConnection<IdentifiedSource<S>>,
        claim: &Claim,
        within: Duration,
    ) -> Result<Acquired, Failure> {
        let replicas = self.core.replicated.as_ref().map(|(replicas, _)| *replicas);
        let call = ScriptCall { replicas, ..acquire(claim) };
        let on_abandoned = |loan| self.release_behind(loan, claim);
        let answer =
            send_script(&self.core.health, link, &call, within, reply::acquired, on_abandoned)
                .await?;
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
                        answer.loan.into_iter().for_each(on_abandoned);
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
    pub(crate) fn hear(&self, micros: i64, sent: Moment) {
        self.core.identity.hear(Sample { micros, sent, received: CLOCK.now() });
    }
}

impl<S: Source> LockBackend for RedisNode<S> {
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
            let call = ScriptCall::new(&RAISE, &keys, &[claim.owner.as_str(), &fencing_token]);
            Ok(send_script(
                &self.core.health,
                &self.calls,
                &call,
                within,
                reply::found,
                on_abandoned,
            )
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
            let call = ScriptCall { replicas, ..renewal(claims) };
            let decode = |value: &Value| reply::renewed(value, claims.len());
            let answer =
                send_script(&core.health, &core.renewals, &call, within, decode, on_abandoned)
                    .await?;
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
                    if !core.identity.is_asking() {
                        core.health.meet(info);
                    }
                };
                let verdict =
                    startup_check::probe::<S>(&core.name, &mut loan.connection, &met).await;
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

    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        told: OnRelease,
        within: Duration,
    ) -> Option<Reply<'a, HintRegistration>> {
        Some(Box::pin(self.await_release(claim, told, within)))
    }

    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(self.core.let_go(&self.calls, Release::leaving(claim), within))
    }

    fn background_task(&self) -> Option<BackgroundTask> {
        self.begin_duty()
    }

    fn fifo_queue(&self) -> Option<&dyn FifoQueue> {
        self.core.replicated.is_none().then_some(self)
    }

    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        self.lane_here()
    }
}

/// A server takes no spaces in it, and nothing but ASCII.
fn connection_name(client: &str) -> Arc<str> {
    let fitting = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    format!("redlock:{}", client.chars().map(fitting).collect::<String>()).into()
}

fn acquire(claim: &Claim) -> ScriptCall {
    let (mark, counter) = (claim.key.mark_key(), claim.key.fence_key());
    let (expire, life) = (claim.expire.as_millis().to_string(), counter_life(claim));
    let keys = [claim.key.redis_key(), &mark, &counter];
    ScriptCall::new(&ACQUIRE, &keys, &[claim.owner.as_str(), &expire, &life])
}

pub(crate) fn renewal(claims: &[Claim]) -> ScriptCall {
    let keys: Vec<&str> = claims.iter().map(|claim| claim.key.redis_key()).collect();
    let expires: Vec<String> =
        claims.iter().map(|claim| claim.expire.as_millis().to_string()).collect();
    let leases = claims.iter().zip(&expires);
    let args: Vec<&str> =
        leases.flat_map(|(claim, expire)| [claim.owner.as_str(), expire.as_str()]).collect();
    ScriptCall::new(&RENEW, &keys, &args)
}

pub(crate) fn counter_life(claim: &Claim) -> String {
    (COUNTER_LIFE + claim.expire).as_millis().to_string()
}
