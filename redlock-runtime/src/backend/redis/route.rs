//! The commands of a lock on one Redis server, over one connection for the commands of callers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::commands::Deadline;
use super::connection::source::CONNECT;
use super::connection::{SharedConnection, Source};
use super::node_core::NodeCore;
use crate::backend::{Abilities, Acquired, Claim, Found, LockBackend, Release, Reply};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;

/// The route to a server that a caller uses: the connection on the background thread, or one on the
/// caller's own runtime.
pub(crate) struct Route<S: Source> {
    pub(crate) core: Arc<NodeCore<S>>,
    pub(crate) connection: Arc<SharedConnection<S>>,
    /// `Some`: a local connection, and the caller's runtime on which it lives. `None`: the node's
    /// own connection, whose commands are polled on the background thread.
    pub(crate) home: Option<Handle>,
}

impl<S: Source> Clone for Route<S> {
    fn clone(&self) -> Self {
        let (core, connection) = (Arc::clone(&self.core), Arc::clone(&self.connection));
        Self { core, connection, home: self.home.clone() }
    }
}

impl<S: Source> fmt::Debug for Route<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("name", &self.core.name).finish_non_exhaustive()
    }
}

impl<S: Source> Route<S> {
    pub(crate) fn new(core: NodeCore<S>) -> Self {
        let connection = Arc::new(SharedConnection::new(Arc::clone(&core.source)));
        Self { core: Arc::new(core), connection, home: None }
    }

    /// The same server, over a connection of the runtime `home`.
    pub(crate) fn on(&self, home: &Handle) -> Self {
        let connection = Arc::new(self.connection.on(home.clone()));
        Self { core: Arc::clone(&self.core), connection, home: Some(home.clone()) }
    }
}

/// May the lock be released although its queue cannot be used?
pub(super) fn is_queue_out_of_reach<S: Source>(error: &NodeError) -> bool {
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
        Box::pin(self.acquire_within(claim, within))
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
                renewed => Ok(renewed?),
            }
        })
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        Box::pin(self.release_within(release, within))
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        Box::pin(self.raise_within(claim, fencing_token, within))
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
