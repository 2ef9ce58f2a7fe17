//! The state that a node and its local connections share.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::clock::CLOCK;
use super::commands::{ScriptCall, exclusive, on_abandoned, send_script, shared};
use super::connection::{
    Batching, Loan, MinReplicas, ReplicaConnections, SharedConnection, Source,
};
use super::health::{IdentifiedSource, OutageLog, Sample, ServerIdentity};
use super::pending_undo::PendingUndos;
use super::pubsub::{HandoverWatchdog, Registry};
use crate::backend::{Claim, Fault, Found, Release};
use crate::clock::Moment;
use crate::denial::Denial;
use crate::error::{NodeError, NodeErrorKind};
use crate::kind::Kind;
use crate::report::Reports;

/// The options of a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeOptions {
    /// The name of the client.
    pub(crate) client: Arc<str>,
    pub(crate) reports: Arc<Reports>,
    /// The prefix of the locks' keys.
    pub(crate) prefix: Arc<str>,
    /// The key of the founders. If it is set, the node finds out whether the server was restarted,
    /// and whether this key outlived that.
    pub(crate) founders_key: Option<Arc<str>>,
    pub(crate) min_replicas: Option<MinReplicas>,
}

#[cfg(test)]
impl Default for NodeOptions {
    fn default() -> Self {
        let reports = Arc::new(Reports::new(CLOCK));
        let (client, prefix) = ("test".into(), "".into());
        Self { client, reports, prefix, founders_key: None, min_replicas: None }
    }
}

/// One server, whichever connection a caller uses.
pub(crate) struct NodeCore<S: Source> {
    pub(crate) name: String,
    pub(crate) health: OutageLog,
    pub(crate) identity: Arc<ServerIdentity>,
    pub(crate) source: Arc<IdentifiedSource<S>>,
    /// Renewals have a connection of their own: they never queue after the commands of callers.
    pub(crate) renewals: SharedConnection<IdentifiedSource<S>>,
    pub(crate) replicated: Option<(MinReplicas, ReplicaConnections<IdentifiedSource<S>>)>,
    pub(crate) pending_undos: PendingUndos,
    pub(crate) registry: Arc<Registry>,
    pub(crate) handovers: HandoverWatchdog,
    /// Whether the user of this client is denied the queue of a lock.
    queue_denial: Denial,
    /// Whether it is denied the script that acquires several locks.
    pub(crate) all_denial: Denial,
    /// Whether it is denied the script that releases several locks.
    pub(crate) release_all_denial: Denial,
}

impl<S: Source> NodeCore<S> {
    pub(crate) fn new(name: String, source: S, options: NodeOptions) -> Self {
        let NodeOptions { client, reports, prefix, founders_key, min_replicas } = options;
        let identity = Arc::new(ServerIdentity::new(name.clone(), founders_key));
        let registry = Arc::new(Registry::new(source.channel(&prefix)));
        let shown = connection_name(&client);
        let source = IdentifiedSource { source, name: shown, identity: Arc::clone(&identity) };
        let source = Arc::new(source);
        let connections = |replicas| (replicas, ReplicaConnections::new(Arc::clone(&source)));
        Self {
            health: OutageLog::new(&name, client, reports, S::LEADS_TO_ONE),
            name,
            identity,
            renewals: SharedConnection::of(Arc::clone(&source), &exclusive::renew::SCRIPT),
            replicated: min_replicas.map(connections),
            source,
            pending_undos: PendingUndos::default(),
            registry,
            handovers: HandoverWatchdog::default(),
            queue_denial: Denial::default(),
            all_denial: Denial::default(),
            release_all_denial: Denial::default(),
        }
    }

    /// Learns from the server's time, which every answer to an acquire or a renewal brings.
    pub(crate) fn heard_time(&self, micros: i64, sent: Moment) {
        self.identity.hear(Sample { micros, sent, received: CLOCK.now() });
    }

    /// Releases a lock, or leaves its queue, over `calls`.
    pub(crate) async fn release(
        &self,
        calls: &SharedConnection<IdentifiedSource<S>>,
        release: &Release<'_>,
        within: Duration,
    ) -> Result<Found, Fault> {
        let end = Instant::now() + within;
        let mut has_queue = !self.queue_denial.lasts(|| CLOCK.now());
        let mut refused: Option<(NodeErrorKind, bool)> = None;
        let answer = loop {
            let call = release_call(*release, has_queue);
            let (decode, within) = (exclusive::release::decode, end - Instant::now());
            match send_script(&self.health, calls, &call, within, decode, on_abandoned).await {
                Err(failure) if has_queue && is_queue_out_of_reach::<S>(&failure.error) => {
                    has_queue = false;
                    refused = Some((failure.error.kind(), failure.is_unknown));
                }
                answer => break answer,
            }
        };
        let may_have_run = refused.is_some_and(|(_, is_unknown)| is_unknown);
        let answer = answer.map_err(|failure| failure.unknown_if(may_have_run))?;
        match refused {
            None if has_queue => self.queue_denial.allowed(),
            // A slot that moves comes to rest again; an ACL mostly stays as it is.
            Some((NodeErrorKind::NoPermission, _)) => _ = self.queue_denial.denied(CLOCK.now()),
            _ => {}
        }
        let was_cut = answer.was_cut || may_have_run;
        Ok(self.released(*release, answer.found, was_cut))
    }

    /// What a release found, and whether somebody has the lock next, or waits for it. `was_cut`: it
    /// was repeated, as the connection of its first try broke.
    pub(crate) fn released(
        &self,
        release: Release<'_>,
        (found, is_awaited): (Found, bool),
        was_cut: bool,
    ) -> Found {
        let found = match found {
            // That try may have freed the lock, or handed it over.
            Found::Gone | Found::Stolen if was_cut => Found::Unclear,
            found => found,
        };
        if is_awaited || found == Found::Unclear {
            match release.retain {
                Some(left) => self.handovers.look_again(&release.claim.key, left),
                None => self.handovers.begin(&release.claim.key),
            }
        }
        found
    }

    /// Undoes an unanswered acquire, which may still be carried out.
    pub(crate) fn undo_acquire(
        self: &Arc<Self>,
        home: Option<&Handle>,
        loan: Loan<Batching<S::Connection>>,
        claim: &Claim,
    ) {
        self.undo(home, loan, claim, false);
    }

    /// Undoes an unanswered enqueue, which may still be carried out.
    pub(crate) fn undo_enqueue(
        self: &Arc<Self>,
        home: Option<&Handle>,
        loan: Loan<Batching<S::Connection>>,
        claim: &Claim,
    ) {
        self.registry.gave_up(claim);
        self.undo(home, loan, claim, true);
    }

    /// Sends a release on the connection of the command, because only there the order of the two is
    /// certain. The connection stays open until the server has read both, or the lease would be
    /// over.
    fn undo(
        self: &Arc<Self>,
        home: Option<&Handle>,
        mut loan: Loan<Batching<S::Connection>>,
        claim: &Claim,
        may_be_queued: bool,
    ) {
        // Without a runtime, as at the end of one, the connection ends as well.
        let Some(home) = home.cloned().or_else(|| Handle::try_current().ok()) else { return };
        let (undos, claim) = (self.pending_undos.clone(), claim.clone());
        undos.sent(&claim.owner);
        home.spawn(async move {
            let release = Release { may_be_queued, ..Release::of(&claim) };
            let call = release_call(release, true);
            let sent = call.invocation.run(&mut loan.connection);
            // The outcome does not matter here: the engine releases once more, on a fresh
            // connection.
            if let Ok(Ok(_)) = tokio::time::timeout(claim.expire, sent).await {
                loan.heard();
                undos.over(&claim.owner);
            }
        });
    }
}

fn release_call(release: Release<'_>, has_queue: bool) -> ScriptCall {
    match release.claim.kind {
        Kind::Exclusive => exclusive::release::call(release, has_queue),
        Kind::Read | Kind::Permits(_) => shared::release::call(release, has_queue),
    }
}

/// May the lock be released although its queue cannot be used?
fn is_queue_out_of_reach<S: Source>(error: &NodeError) -> bool {
    match error.kind() {
        // Not the command is forbidden, but one of its keys.
        NodeErrorKind::NoPermission => error.message().contains("key"),
        // A script with several keys, while some of them have moved to another server.
        NodeErrorKind::Cluster => !S::LEADS_TO_ONE,
        _ => false,
    }
}

/// A connection name must have no spaces, and ASCII only.
fn connection_name(client: &str) -> Arc<str> {
    let fitting = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    format!("redlock:{}", client.chars().map(fitting).collect::<String>()).into()
}
