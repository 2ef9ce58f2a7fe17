//! The three commands of a lock on one Redis server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Pool;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::time::Instant;

use super::diagnosis::diagnose;
use super::link::{Link, Loan};
use super::script::{ACQUIRE, RAISE, RELEASE, RENEW, Script};
use super::source::{Direct, Source};
use super::{address, probe, reply};
use crate::backend::{Acquired, Backend, Claim, Fault, Found, Reply, Tls};
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::fencing::FencingToken;

/// How long a fencing counter outlives the last lease on its key. Tokens are seeded from the
/// server's time, so a counter that was forgotten never goes back.
const FENCE_LIFE: Duration = Duration::from_secs(3600);

/// One Redis server. Two connections: renewals never queue behind the commands of callers.
pub(crate) struct RedisNode<S: Source = Direct> {
    name: String,
    calls: Link<S>,
    renewals: Link<S>,
}

impl RedisNode {
    pub(crate) fn open(url: &str, tls: Option<&Tls>) -> Result<Self, LockError> {
        let (name, pool) = address::open(url, tls)?;
        Ok(Self::new(name, Direct::new(pool, false)))
    }

    /// `pool` is the source of connections; its size and recycling do not matter.
    pub(crate) fn from_pool(pool: &Pool, index: usize) -> Self {
        Self::new(format!("redis pool {index}"), Direct::new(pool.clone(), true))
    }
}

impl<S: Source> RedisNode<S> {
    fn new(name: String, source: S) -> Self {
        let source = Arc::new(source);
        let link = || Link::new(Arc::clone(&source));
        Self { name, calls: link(), renewals: link() }
    }

    /// Runs one script within the time given. A connection that broke, perhaps long ago and
    /// unseen until now, is replaced once and the call repeated: every script may be repeated by
    /// its owner.
    async fn call<T>(
        &self,
        link: &Link<S>,
        call: Call<'_>,
        within: Duration,
        decode: impl Fn(&Value) -> Option<T>,
    ) -> Result<Answer<T>, Failure<S::Connection>> {
        let end = Instant::now() + within;
        let mut is_unknown = false;
        loop {
            let mut loan = match tokio::time::timeout_at(end, link.borrow()).await {
                Ok(Ok(loan)) => loan,
                Ok(Err(error)) => {
                    let why = diagnose(&self.name, &error);
                    return Err(Failure::new(why.error, is_unknown, why.is_final));
                }
                Err(_) => return Err(self.no_connection(within, is_unknown)),
            };
            match tokio::time::timeout_at(end, call.send(&mut loan)).await {
                Ok(Ok(value)) => {
                    let Some(found) = decode(&value) else {
                        // Whatever answers there, its next reply may be just as wrong.
                        link.discard(&loan);
                        let failure = self.nonsense(&value);
                        return Err(Failure { unanswered: Some(loan), ..failure });
                    };
                    return Ok(Answer { found, was_cut: is_unknown });
                }
                Ok(Err(error)) => {
                    let why = diagnose(&self.name, &error);
                    if why.discard {
                        link.discard(&loan);
                    }
                    if why.broke && !is_unknown {
                        is_unknown = true;
                        continue;
                    }
                    return Err(Failure::new(why.error, is_unknown || why.broke, why.is_final));
                }
                Err(_) => {
                    link.discard(&loan);
                    let failure = self.no_reply("no reply", within, true);
                    return Err(Failure { unanswered: Some(loan), ..failure });
                }
            }
        }
    }

    /// A server without TLS takes the beginning of a handshake for half a command, and waits.
    fn no_connection(&self, within: Duration, is_unknown: bool) -> Failure<S::Connection> {
        let is_secure = self.name.starts_with("rediss://");
        let hint = if is_secure { " (does the server speak TLS at this port?)" } else { "" };
        self.no_reply(&format!("no connection{hint}"), within, is_unknown)
    }

    fn no_reply(&self, what: &str, within: Duration, is_unknown: bool) -> Failure<S::Connection> {
        let message = format!("{what} within {} ms", within.as_millis());
        let error = NodeError::new(&self.name, NodeErrorKind::NoReply, message);
        Failure::new(error, is_unknown, false)
    }

    /// The reply was not of the script's form: something else answers there.
    fn nonsense(&self, value: &Value) -> Failure<S::Connection> {
        let message = format!("unexpected reply {value:?}");
        let error = NodeError::new(&self.name, NodeErrorKind::Protocol, message);
        Failure::new(error, true, false)
    }
}

impl<S: Source> fmt::Debug for RedisNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: Source> Backend for RedisNode<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move {
            let fence = claim.key.fence_key();
            let expire = claim.expire.as_millis().to_string();
            let fence_life = fence_life(claim);
            let keys = [claim.key.redis_key(), &fence];
            let args = [claim.owner.as_str(), &expire, &fence_life];
            let call = Call { script: &ACQUIRE, keys: &keys, args: &args };
            match self.call(&self.calls, call, within, reply::acquired).await {
                Ok(Answer { found: Acquired::Refused { holder, free_in, .. }, was_cut }) => {
                    Ok(Acquired::Refused { holder, free_in, was_cut, is_split: false })
                }
                Ok(Answer { found, .. }) => Ok(found),
                Err(failure) => {
                    if let Some(loan) = failure.unanswered.clone() {
                        release_behind(loan, claim.clone());
                    }
                    Err(failure.into())
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
            let fence = claim.key.fence_key();
            let (fencing_token, fence_life) = (fencing_token.to_string(), fence_life(claim));
            let keys = [claim.key.redis_key(), &fence];
            let args = [claim.owner.as_str(), &fencing_token, &fence_life];
            let call = Call { script: &RAISE, keys: &keys, args: &args };
            Ok(self.call(&self.calls, call, within, reply::found).await?.found)
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
            let call = Call { script: &RENEW, keys: &keys, args: &args };
            let decode = |value: &Value| reply::renewed(value, claims.len());
            let answer = self.call(&self.renewals, call, within, decode).await?;
            Ok(answer.found.into_iter().map(Some).collect())
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            let keys = [claim.key.redis_key()];
            let args = [claim.owner.as_str()];
            let call = Call { script: &RELEASE, keys: &keys, args: &args };
            let answer = self.call(&self.calls, call, within, reply::found).await?;
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
                Err(_) if !self.calls.is_connected() => {
                    Err(self.no_connection(within, false).into())
                }
                Err(_) => Err(self.no_reply("no reply", within, false).into()),
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
fn release_behind(mut loan: Loan<impl ConnectionLike + Send + 'static>, claim: Claim) {
    tokio::spawn(async move {
        let keys = [claim.key.redis_key()];
        let args = [claim.owner.as_str()];
        let release = RELEASE.run_text(&mut loan.connection, &keys, &args);
        // The outcome does not matter here: the engine asks once more, on a fresh connection.
        let _ = tokio::time::timeout(claim.expire, release).await;
    });
}

/// A script and what it is run on.
#[derive(Clone, Copy)]
struct Call<'a> {
    script: &'static Script,
    keys: &'a [&'a str],
    args: &'a [&'a str],
}

impl Call<'_> {
    async fn send(self, loan: &mut Loan<impl ConnectionLike + Send>) -> RedisResult<Value> {
        self.script.run(&mut loan.connection, self.keys, self.args).await
    }
}

/// What a script found.
struct Answer<T> {
    found: T,
    /// A try before this one broke off, and may have been carried out or land later.
    was_cut: bool,
}

/// A call that failed, and the connection on which its reply may still come.
struct Failure<C> {
    error: NodeError,
    is_unknown: bool,
    is_final: bool,
    unanswered: Option<Loan<C>>,
}

impl<C> Failure<C> {
    fn new(error: NodeError, is_unknown: bool, is_final: bool) -> Self {
        Self { error, is_unknown, is_final, unanswered: None }
    }
}

impl<C> From<Failure<C>> for Fault {
    fn from(failure: Failure<C>) -> Self {
        let Failure { error, is_unknown, is_final, unanswered: _ } = failure;
        Self { nodes: vec![error], is_unknown, is_final }
    }
}
