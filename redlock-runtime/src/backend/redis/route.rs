//! The commands of a lock on one Redis server, over one connection for the commands of callers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::commands::reply::Timed;
use super::commands::{
    Failure, ScriptCall, exclusive, is_passing, no_connection, no_reply, on_abandoned, send_script,
    shared,
};
use super::connection::{MinReplicas, SharedConnection, Source, diagnose};
use super::health::{IdentifiedSource, startup_check};
use super::node_core::NodeCore;
use tokio::sync::oneshot;

use crate::backend::{Abilities, Acquired, Claim, Departures, Found, LockBackend, Release, Reply};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::kind::Kind;
use crate::shield::tell;

/// The route to a server that a caller uses: the connection on the background thread, or one on the
/// caller's own runtime.
pub(crate) struct Route<S: Source> {
    pub(crate) core: Arc<NodeCore<S>>,
    pub(crate) calls: Arc<SharedConnection<IdentifiedSource<S>>>,
    /// The runtime to which `calls` belongs; `None`: the runtime of the caller.
    pub(crate) home: Option<Handle>,
}

impl<S: Source> fmt::Debug for Route<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("name", &self.core.name).finish_non_exhaustive()
    }
}

impl<S: Source> Route<S> {
    pub(crate) fn new(core: NodeCore<S>) -> Self {
        let calls = Arc::new(SharedConnection::new(Arc::clone(&core.source)));
        Self { core: Arc::new(core), calls, home: None }
    }

    /// The same server, over a connection of the runtime `home`.
    pub(crate) fn on(&self, home: &Handle) -> Self {
        let calls = Arc::new(self.calls.on(home.clone()));
        Self { core: Arc::clone(&self.core), calls, home: Some(home.clone()) }
    }

    /// Acquires over `connection`, which is `calls`, or one for commands that replicas confirm.
    async fn acquire_over(
        &self,
        connection: &SharedConnection<IdentifiedSource<S>>,
        claim: &Claim,
        within: Duration,
    ) -> Result<Acquired, Failure> {
        let replicas = self.core.replicated.as_ref().map(|(replicas, _)| *replicas);
        let (call, decode): (_, Decode<_>) = match claim.kind {
            Kind::Exclusive => (exclusive::acquire::call(claim), exclusive::acquire::decode),
            Kind::Read | Kind::Permits(_) => {
                (shared::acquire::call(claim), shared::acquire::decode)
            }
        };
        let call = ScriptCall { replicas, ..call };
        let undo = |loan| self.core.undo_acquire(self.home.as_ref(), loan, claim);
        let answer =
            send_script(&self.core.health, connection, &call, within, decode, undo).await?;
        self.core.heard_time(answer.found.micros, answer.sent);
        match answer.found.found {
            Acquired::Refused { holder, free_in, .. } => {
                let was_cut = answer.was_cut;
                Ok(Acquired::Refused { holder, free_in, was_cut, is_split: false })
            }
            Acquired::Granted { fencing_token, .. } => {
                match self.shortage(replicas, answer.confirmed) {
                    None => Ok(Acquired::Granted { fencing_token, was_cut: answer.was_cut }),
                    // The master has granted the lock, but too few replicas have it: it is given
                    // back.
                    Some((error, is_final)) => {
                        answer.loan.into_iter().for_each(undo);
                        Err(Failure::new(error, true, is_final))
                    }
                }
            }
        }
    }

    /// A counter that a failover may forget does not count.
    async fn raise_over(
        &self,
        connection: &SharedConnection<IdentifiedSource<S>>,
        call: ScriptCall,
        within: Duration,
    ) -> Result<Found, Failure> {
        let replicas = self.core.replicated.as_ref().map(|(replicas, _)| *replicas);
        let (call, decode) = (ScriptCall { replicas, ..call }, exclusive::raise::decode);
        let health = &self.core.health;
        let answer = send_script(health, connection, &call, within, decode, on_abandoned).await?;
        match self.shortage(replicas, answer.confirmed) {
            Some((error, is_final)) if answer.found == Found::Ours => {
                Err(Failure::new(error, true, is_final))
            }
            _ => Ok(answer.found),
        }
    }

    async fn renew_by(
        &self,
        call: ScriptCall,
        leases: usize,
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Failure> {
        // The time for replicas is part of the time for the answer.
        let core = &self.core;
        let replicas = core.replicated.as_ref().map(|(replicas, _)| MinReplicas {
            within: replicas.within.min(within / 2),
            ..*replicas
        });
        let call = ScriptCall { replicas, ..call };
        let decode = |value: &Value| exclusive::renew::decode(value, leases);
        let answer =
            send_script(&core.health, &core.renewals, &call, within, decode, on_abandoned).await?;
        core.heard_time(answer.found.micros, answer.sent);
        let shortage = self.shortage(replicas, answer.confirmed);
        if let Some((error, _)) = &shortage {
            tell!(debug, %error, "renewals were not replicated, they are tried again");
        }
        // A renewal that a failover may forget must not be relied on.
        let relied_on = |found| (shortage.is_none() || found != Found::Ours).then_some(found);
        Ok(answer.found.found.into_iter().map(relied_on).collect())
    }

    /// Leases of exclusive and of shared kinds have a script each. Both calls leave at once.
    async fn renew_mixed(
        &self,
        claims: &[Claim],
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Failure> {
        let (shared, exclusive): (Vec<&Claim>, Vec<&Claim>) =
            claims.iter().partition(|claim| claim.kind.is_shared());
        let (shared, exclusive) = tokio::join!(
            self.renew_by(shared::renew::call(&shared), shared.len(), within),
            async {
                if exclusive.is_empty() {
                    return Ok(Vec::new());
                }
                let call = exclusive::renew::call(&exclusive);
                self.renew_by(call, exclusive.len(), within).await
            }
        );
        // One of two answers is better than none: the leases of the other one are unknown.
        let (mut shared, mut exclusive) = match (shared, exclusive) {
            (Err(failure), Err(_)) => return Err(failure),
            (Err(failure), Ok(found)) if found.is_empty() => return Err(failure),
            (shared, exclusive) => {
                let found = |answer: Result<Vec<_>, _>| answer.unwrap_or_default().into_iter();
                (found(shared), found(exclusive))
            }
        };
        let next = |claim: &Claim| {
            let found = if claim.kind.is_shared() { shared.next() } else { exclusive.next() };
            found.flatten()
        };
        Ok(claims.iter().map(next).collect())
    }

    /// Why a write does not count: too few replicas have it. The flag: retrying cannot help.
    pub(super) fn shortage(
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
}

impl<S: Source> Departures for Route<S> {
    fn next_departure(&self) -> Option<oneshot::Receiver<()>> {
        self.calls.at_hand()?.connection.next_departure()
    }

    fn has_room(&self, is_plain: bool) -> bool {
        self.calls.at_hand().is_some_and(|loan| loan.connection.has_room(is_plain))
    }
}

/// How a reply is read.
type Decode<T> = fn(&Value) -> Option<Timed<T>>;

impl<S: Source> LockBackend for Route<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move {
            if self.core.pending_undos.is_pending(&claim.owner) {
                let message = "the clean-up of an unanswered acquire is still on its way";
                let error = NodeError::new(&self.core.name, NodeErrorKind::Refused, message);
                return Err(Failure::new(error, false, false).into());
            }
            let Some((_, connections)) = &self.core.replicated else {
                return Ok(self.acquire_over(&self.calls, claim, within).await?);
            };
            let end = Instant::now() + within;
            match tokio::time::timeout_at(end, connections.take()).await {
                Ok(taken) => {
                    let left = end - Instant::now();
                    Ok(Box::pin(self.acquire_over(&taken.link, claim, left)).await?)
                }
                Err(_) => {
                    Err(no_reply(&self.core.name, "no free connection", within, false).into())
                }
            }
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            if claims.iter().all(|claim| claim.kind == Kind::Exclusive) {
                let call = exclusive::renew::call(claims);
                return Ok(self.renew_by(call, claims.len(), within).await?);
            }
            Ok(Box::pin(self.renew_mixed(claims, within)).await?)
        })
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            self.core.pending_undos.over(&release.claim.owner);
            if release.may_be_queued {
                self.core.registry.gave_up(release.claim);
            }
            self.core.release(&self.calls, &release, within).await
        })
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        let call = match claim.kind {
            Kind::Exclusive => exclusive::raise::call(claim, fencing_token),
            Kind::Read | Kind::Permits(_) => shared::raise::call(claim, fencing_token),
        };
        Box::pin(async move {
            let Some((_, connections)) = &self.core.replicated else {
                return Ok(self.raise_over(&self.calls, call, within).await?);
            };
            let end = Instant::now() + within;
            match tokio::time::timeout_at(end, connections.take()).await {
                Ok(taken) => Ok(self.raise_over(&taken.link, call, end - Instant::now()).await?),
                Err(_) => {
                    Err(no_reply(&self.core.name, "no free connection", within, false).into())
                }
            }
        })
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let end = Instant::now() + within;
            let verdict = tokio::time::timeout_at(end, async {
                // Both connect before their first use: the renewal of a short lease has no time to
                // connect.
                let (loan, renewals) =
                    tokio::join!(self.calls.borrow(), self.core.renewals.borrow());
                let mut loan = loan?;
                let core = &self.core;
                // With a restart guard, each connection identifies the server itself.
                let met = |info: &str| {
                    if !core.identity.is_asking() {
                        core.health.meet(info);
                    }
                };
                let verdict =
                    startup_check::probe::<S>(&core.name, loan.connection.inner(), &met).await;
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

    /// If replicas have to confirm a grant, the server cannot hand a lock over by itself.
    fn abilities(&self) -> Abilities<'_> {
        let is_alone = self.core.replicated.is_none();
        Abilities {
            fifo_queue: is_alone.then_some(self as _),
            acquire_all: is_alone.then_some(self as _),
            release_all: is_alone.then_some(self as _),
            downgrade: Some(self),
            health: Some(self),
            departures: self.home.is_some().then_some(self as _),
            has_permits: true,
            ..Abilities::default()
        }
    }
}
