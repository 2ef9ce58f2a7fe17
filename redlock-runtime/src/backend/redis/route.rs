//! The commands of a lock on one Redis server, over one connection for the commands of callers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::clock::CLOCK;
use super::commands::{Deadline, Failure, ScriptCall, by_kind, exclusive, no_undo, send_script};
use super::connection::source::CONNECT;
use super::connection::{SharedConnection, Source};
use super::node_core::NodeCore;
use crate::backend::{
    Abilities, Acquired, CLAIM_WINDOW, Claim, Fault, Found, LockBackend, Release, Reply,
};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;

/// The route to a server that a caller uses: the connection on the background thread, or one on the
/// caller's own runtime.
pub(crate) struct Route<S: Source> {
    pub(crate) core: Arc<NodeCore<S>>,
    pub(crate) calls: Arc<SharedConnection<S>>,
    /// `Some`: a local connection, and the caller's runtime on which it lives. `None`: the node's
    /// own connection, whose commands are polled on the background thread.
    pub(crate) home: Option<Handle>,
}

impl<S: Source> Clone for Route<S> {
    fn clone(&self) -> Self {
        let (core, calls) = (Arc::clone(&self.core), Arc::clone(&self.calls));
        Self { core, calls, home: self.home.clone() }
    }
}

impl<S: Source> fmt::Debug for Route<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("name", &self.core.name).finish_non_exhaustive()
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

    async fn acquire_over(
        &self,
        connection: &SharedConnection<S>,
        claim: &Claim,
        deadline: &Deadline,
    ) -> Result<Acquired, Failure> {
        let (mut call, decode) = by_kind::acquire(claim);
        // Set in place: a second call would be a part of this future.
        call.replicas = self.core.min_replicas().map(|some| some.answering(deadline.left()));
        let undo = |loan| self.core.undo(self.home.as_ref(), loan, claim, false);
        let answer =
            send_script(&self.core.health, connection, &call, deadline, decode, undo).await?;
        self.core.heard_time(answer.found.micros, answer.sent);
        let mut acquired = answer.found.found;
        let (Acquired::Granted { was_cut, .. } | Acquired::Refused { was_cut, .. }) = &mut acquired;
        // Changed in place: a second `Acquired` would make this future larger.
        *was_cut = answer.was_cut;
        if let Acquired::Granted { .. } = acquired
            && let Some((error, is_final)) = self.shortage(call.replicas, answer.confirmed)
        {
            // The master has granted the lock, but too few replicas have it: it is given back.
            answer.loan.into_iter().for_each(undo);
            return Err(Failure::new(error, true, is_final));
        }
        Ok(acquired)
    }

    /// Fails while the clean-up of an earlier command of the same owner is on its way to the
    /// process that answers: it would take away what is granted now. `has_run`: the acquire was
    /// answered.
    fn check_undone(&self, claim: &Claim, has_run: bool) -> Result<(), Failure> {
        let run_id = || self.core.identity.run_id();
        if !self.core.pending_undos.is_pending(&claim.owner, run_id) {
            return Ok(());
        }
        let message = "the clean-up of an unanswered acquire is still on its way";
        let error = NodeError::new(&self.core.name, NodeErrorKind::Refused, message);
        Err(Failure::new(error, has_run, false))
    }

    /// The owner releases, and is never used again.
    pub(super) fn retire_owner(&self, release: &Release<'_>) {
        self.core.pending_undos.forget(&release.claim.owner);
        if release.may_be_queued {
            self.core.registry.gave_up(release.claim);
        }
    }

    /// The release was answered. Before that, a signal that comes late would have the lock given
    /// back over another connection, which could overtake the release.
    fn note_released(&self, release: &Release<'_>) {
        if release.was_queued && !release.may_be_queued {
            self.core.registry.note_served(release.claim);
        }
    }

    /// Releases a lock, or leaves its queue, over `calls`. `may_have_run`: an earlier try may have
    /// been carried out.
    pub(super) async fn release_over(
        &self,
        release: &Release<'_>,
        within: Duration,
        may_have_run: bool,
    ) -> Result<Found, Fault> {
        let (core, deadline) = (&self.core, Deadline::after(within));
        let mut has_queue = !core.release_keys_denial.lasts(|| CLOCK.now());
        let mut refused: Option<(NodeErrorKind, bool)> = None;
        let answer = loop {
            let only_at = release.only_at.cloned();
            let call = ScriptCall { only_at, ..by_kind::release(*release, has_queue) };
            let (health, decode) = (&core.health, exclusive::release::decode);
            match send_script(health, &self.calls, &call, &deadline, decode, no_undo).await {
                Err(failure) if has_queue && is_queue_out_of_reach::<S>(&failure.error) => {
                    has_queue = false;
                    refused = Some((failure.error.kind(), failure.is_unknown));
                }
                answer => break answer,
            }
        };
        let may_have_run = may_have_run || refused.is_some_and(|(_, is_unknown)| is_unknown);
        let answer = answer.map_err(|failure| failure.unknown_if(may_have_run))?;
        match refused {
            None if has_queue => core.release_keys_denial.allowed(),
            // A slot that moves comes to rest again; an ACL usually stays as it is.
            Some((NodeErrorKind::NoPermission, _)) => {
                core.release_keys_denial.denied(CLOCK.now());
            }
            _ => {}
        }
        let was_cut = answer.was_cut || may_have_run;
        Ok(self.conclude_release(*release, answer.found, was_cut))
    }

    /// What a release means for its owner; has the watchdog look again where a waiter was handed
    /// the lock, or may have been. `was_cut`: the release was repeated, as the connection of its
    /// first try broke.
    pub(super) fn conclude_release(
        &self,
        release: Release<'_>,
        (found, is_awaited): (Found, bool),
        was_cut: bool,
    ) -> Found {
        self.note_released(&release);
        let found = match found {
            // That try may have freed the lock, or handed it over.
            Found::Gone | Found::Stolen if was_cut => Found::Unclear,
            found => found,
        };
        if is_awaited || found == Found::Unclear {
            let Claim { key, owner, .. } = release.claim;
            self.core.handovers.look_again(key, owner, release.retain.unwrap_or(CLAIM_WINDOW));
        }
        found
    }
}

/// May the lock be released although its queue cannot be used?
fn is_queue_out_of_reach<S: Source>(error: &NodeError) -> bool {
    // A script with several keys, while some of them have moved to another server.
    is_about_a_key(error) || error.kind() == NodeErrorKind::Cluster && !S::LEADS_TO_ONE
}

/// Is not the command forbidden, but one of its keys?
fn is_about_a_key(error: &NodeError) -> bool {
    error.kind() == NodeErrorKind::NoPermission
        && FORBIDDEN_KEY.iter().any(|words| error.message().contains(words))
}

/// What servers say of a key. Their words about a command have the name of the user among them,
/// which may be any word.
const FORBIDDEN_KEY: [&str; 4] =
    ["to access one of the keys", "access at least one of the keys", "to access a key", "' key"];

/// Is a whole call refused for some of its keys, so that others may be served without those?
pub(super) fn is_about_its_keys(error: &NodeError) -> bool {
    is_about_a_key(error) || is_about_slots(error)
}

/// Is a whole call refused as its keys are in several hash slots, each of which may be served?
pub(super) fn is_about_slots(error: &NodeError) -> bool {
    error.message().starts_with("CROSSSLOT")
}

impl<S: Source> LockBackend for Route<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(async move {
            self.check_undone(claim, false)?;
            let deadline = Deadline::after(within);
            let own = self.replica_connection(&deadline).await?;
            let connection = own.as_deref().unwrap_or(&self.calls);
            let acquired = self.acquire_over(connection, claim, &deadline).await?;
            // The address may have led to another process when this was checked first.
            self.check_undone(claim, true)?;
            Ok(acquired)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(async move {
            let deadline = Deadline::after(within);
            if claims.len() > 1 && !self.are_together(claims.iter()) {
                return self.renew_each(claims, within).await;
            }
            match self.renew_together(claims, within).await {
                Err(failure) if claims.len() > 1 && is_about_its_keys(&failure.error) => {
                    self.note_refused(&failure.error);
                    self.renew_each(claims, deadline.left()).await
                }
                renewed => {
                    let found = renewed?;
                    self.note_together(claims.iter());
                    Ok(found)
                }
            }
        })
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        Box::pin(async move {
            self.retire_owner(&release);
            self.release_over(&release, within, false).await
        })
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        let call = by_kind::raise(claim, fencing_token);
        Box::pin(async move {
            let deadline = Deadline::after(within);
            let own = self.replica_connection(&deadline).await?;
            let connection = own.as_deref().unwrap_or(&self.calls);
            Ok(self.raise_over(connection, call, &deadline).await?)
        })
    }

    /// A connection takes more round trips than a command, about nine by way of sentinels, and has
    /// a limit of its own. A server that refuses is told at once.
    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(self.check_server(within.max(CONNECT)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_key_is_told_from_a_forbidden_command() {
        let is_about_a_key =
            |text| is_about_a_key(&NodeError::new("n", NodeErrorKind::NoPermission, text));
        for text in [
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "ERR Error running script (call to f_1): @user_script:1: The user executing the \
             script can't access at least one of the keys mentioned in the command arguments",
            "NOPERM No permissions to access a key",
            "NOPERM User keycloak has no permissions to access the 'k' key",
            "ERR ACL failure in script: No permissions to access a key",
        ] {
            assert!(is_about_a_key(text), "{text}");
        }
        for text in [
            "NOPERM User keycloak has no permissions to run the 'evalsha' command",
            "NOPERM this user has no permissions to run the 'keys' command",
            "NOPERM No permissions to access a channel",
            "NOPERM User keycloak has no permissions to access the 'keys' channel",
        ] {
            assert!(!is_about_a_key(text), "{text}");
        }
    }
}
