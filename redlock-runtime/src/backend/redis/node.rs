//! The three commands of a lock on one Redis server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Pool;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::time::Instant;

use super::behind::Behind;
use super::diagnosis::diagnose;
use super::exchange::{Call, Failure, exchange, no_connection, no_reply};
use super::link::{Link, Loan};
use super::offset::Sample;
use super::presence::{CLOCK, Presence, Watched};
use super::replicas::{Lanes, MinReplicas};
use super::script::{ACQUIRE, RAISE, RELEASE, RENEW};
use super::source::{Direct, Source};
use super::{address, probe, reply};
use crate::backend::{Acquired, Backend, Claim, Found, Reply, Tls};
use crate::clock::Moment;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::fencing::FencingToken;

/// How long a fencing counter outlives the last lease on its key. Tokens are seeded from the
/// server's time, so a counter that was forgotten never goes back.
const FENCE_LIFE: Duration = Duration::from_secs(3600);

/// One Redis server. Two connections: renewals never queue behind the commands of callers.
pub(crate) struct RedisNode<S: Source = Direct> {
    pub(super) name: String,
    pub(super) presence: Arc<Presence>,
    pub(super) calls: Link<Watched<S>>,
    renewals: Link<Watched<S>>,
    replicated: Option<(MinReplicas, Lanes<Watched<S>>)>,
    behind: Behind,
}

/// What is wanted of a node beside its commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeOptions {
    /// Find out whether it was restarted, and whether this key outlived that.
    pub(crate) roll_key: Option<Arc<str>>,
    pub(crate) min_replicas: Option<MinReplicas>,
}

impl RedisNode {
    pub(crate) fn open(
        url: &str,
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let (name, pool) = address::open(url, tls)?;
        Ok(Self::new(name, Direct::new(pool, false), options))
    }

    /// `pool` is the source of connections; its size and recycling do not matter.
    pub(crate) fn from_pool(pool: &Pool, index: usize, options: NodeOptions) -> Self {
        Self::new(format!("redis pool {index}"), Direct::new(pool.clone(), true), options)
    }
}

impl<S: Source> RedisNode<S> {
    pub(super) fn new(name: String, source: S, options: NodeOptions) -> Self {
        let presence = Arc::new(Presence::new(name.clone(), options.roll_key));
        let source = Arc::new(Watched { source, presence: Arc::clone(&presence) });
        let link = || Link::new(Arc::clone(&source));
        let lanes = |replicas| (replicas, Lanes::new(Arc::clone(&source)));
        let replicated = options.min_replicas.map(lanes);
        let (calls, renewals, behind) = (link(), link(), Behind::default());
        Self { name, presence, calls, renewals, replicated, behind }
    }
}

impl<S: Source> fmt::Debug for RedisNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: Source> RedisNode<S> {
    async fn take(
        &self,
        link: &Link<Watched<S>>,
        claim: &Claim,
        within: Duration,
    ) -> Result<Acquired, Failure<S::Connection>> {
        let fence = claim.key.fence_key();
        let expire = claim.expire.as_millis().to_string();
        let fence_life = fence_life(claim);
        let keys = [claim.key.redis_key(), &fence];
        let args = [claim.owner.as_str(), &expire, &fence_life];
        let replicas = self.replicated.as_ref().map(|(replicas, _)| *replicas);
        let call = Call { script: &ACQUIRE, keys: &keys, args: &args, replicas };
        let answer = exchange(&self.name, link, call, within, reply::acquired).await?;
        self.hear(answer.found.micros, answer.sent);
        match answer.found.found {
            Acquired::Refused { holder, free_in, .. } => {
                let was_cut = answer.was_cut;
                Ok(Acquired::Refused { holder, free_in, was_cut, is_split: false })
            }
            granted @ Acquired::Granted { .. } => match self.shortage(replicas, answer.confirmed) {
                None => Ok(granted),
                // It stands on the master: given back like a lock that nobody knows of.
                Some((error, is_final)) => {
                    let failure = Failure::new(error, true, is_final);
                    Err(Failure { unanswered: Some(answer.loan), ..failure })
                }
            },
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
                Some((NodeError::new(&self.name, NodeErrorKind::NoReplicas, message), false))
            }
            Err(error) => {
                let why = diagnose(&self.name, &error);
                Some((why.error, why.is_final))
            }
        }
    }

    /// Learns from the server's time, which every answer to an acquire or a renewal brings.
    fn hear(&self, micros: i64, sent: Moment) {
        self.presence.hear(Sample { micros, sent, received: CLOCK.now() });
    }
}

impl<S: Source> Backend for RedisNode<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move {
            if self.behind.is_pending(&claim.owner) {
                let message = "the clean-up of an unanswered acquire is still on its way";
                let error = NodeError::new(&self.name, NodeErrorKind::Refused, message);
                return Err(Failure::<S::Connection>::new(error, false, false).into());
            }
            let taken = match &self.replicated {
                None => self.take(&self.calls, claim, within).await,
                Some((_, lanes)) => {
                    let end = Instant::now() + within;
                    match tokio::time::timeout_at(end, lanes.take()).await {
                        Ok(lane) => self.take(&lane.link, claim, end - Instant::now()).await,
                        Err(_) => Err(no_reply(&self.name, "no free connection", within, false)),
                    }
                }
            };
            taken.map_err(|failure| {
                if let Some(loan) = failure.unanswered.clone() {
                    self.behind.sent(&claim.owner);
                    release_behind(loan, claim.clone(), self.behind.clone());
                }
                failure.into()
            })
        })
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        Box::pin(async move {
            let fence = claim.key.fence_key();
            let (fencing_token, fence_life) = (fencing_token.to_string(), fence_life(claim));
            let keys = [claim.key.redis_key(), &fence];
            let args = [claim.owner.as_str(), &fencing_token, &fence_life];
            let call = Call { script: &RAISE, keys: &keys, args: &args, replicas: None };
            Ok(exchange(&self.name, &self.calls, call, within, reply::found).await?.found)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            let expires: Vec<String> =
                claims.iter().map(|claim| claim.expire.as_millis().to_string()).collect();
            let keys: Vec<&str> = claims.iter().map(|claim| claim.key.redis_key()).collect();
            let args: Vec<&str> = claims
                .iter()
                .zip(&expires)
                .flat_map(|(claim, expire)| [claim.owner.as_str(), expire.as_str()])
                .collect();
            // The time for replicas is part of the time for the answer.
            let replicas = self.replicated.as_ref().map(|(replicas, _)| MinReplicas {
                within: replicas.within.min(within / 2),
                ..*replicas
            });
            let call = Call { script: &RENEW, keys: &keys, args: &args, replicas };
            let decode = |value: &Value| reply::renewed(value, claims.len());
            let answer = exchange(&self.name, &self.renewals, call, within, decode).await?;
            self.hear(answer.found.micros, answer.sent);
            let shortage = self.shortage(replicas, answer.confirmed);
            if let Some((error, _)) = &shortage {
                tracing::debug!(%error, "renewals were not replicated, they are tried again");
            }
            // A renewal that a failover may forget is not one to rely on.
            let relied_on = |found| (shortage.is_none() || found != Found::Ours).then_some(found);
            Ok(answer.found.found.into_iter().map(relied_on).collect())
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            self.behind.over(&claim.owner);
            let keys = [claim.key.redis_key()];
            let args = [claim.owner.as_str()];
            let call = Call { script: &RELEASE, keys: &keys, args: &args, replicas: None };
            let answer = exchange(&self.name, &self.calls, call, within, reply::found).await?;
            match answer.found {
                // The try that broke off may have been the one that freed it.
                Found::Gone if answer.was_cut => Ok(Found::Ours),
                found => Ok(found),
            }
        })
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let verdict = tokio::time::timeout_at(end, async {
                let mut loan = self.calls.borrow().await?;
                let verdict = probe::probe(&self.name, &mut loan.connection).await;
                // Ahead of its first use: the renewal of a short lease has no time to connect.
                self.renewals.borrow().await?;
                if verdict.is_err() {
                    self.calls.discard(&loan);
                }
                verdict
            });
            match verdict.await {
                Ok(Ok(None)) => Ok(()),
                Ok(Ok(Some(unfit))) => {
                    Err(Failure::<S::Connection>::new(unfit, false, true).into())
                }
                Ok(Err(error)) => {
                    let why = diagnose(&self.name, &error);
                    Err(Failure::<S::Connection>::new(why.error, false, why.is_final).into())
                }
                Err(_) => {
                    let failure: Failure<S::Connection> = if self.calls.is_connected() {
                        no_reply(&self.name, "no reply", within, false)
                    } else {
                        no_connection(&self.name, within, false)
                    };
                    Err(failure.into())
                }
            }
        })
    }
}

fn fence_life(claim: &Claim) -> String {
    (FENCE_LIFE + claim.expire).as_millis().to_string()
}

/// Frees what an unanswered acquire may still take. On the same connection, because only there
/// the order of the two commands is certain; by text, because a NOSCRIPT could not be answered any
/// more.
/// The connection stays open until the server has read both, or the lease would be over.
fn release_behind(
    mut loan: Loan<impl ConnectionLike + Send + 'static>,
    claim: Claim,
    behind: Behind,
) {
    tokio::spawn(async move {
        let keys = [claim.key.redis_key()];
        let args = [claim.owner.as_str()];
        let release = RELEASE.run_text(&mut loan.connection, &keys, &args);
        // What it found does not matter here: the engine asks once more, on a fresh connection.
        if let Ok(Ok(_)) = tokio::time::timeout(claim.expire, release).await {
            behind.over(&claim.owner);
        }
    });
}
