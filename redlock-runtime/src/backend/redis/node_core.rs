//! The state that a node and its local connections share.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisError, RedisResult};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::clock::CLOCK;
use super::commands::{ScriptCall, by_kind, exclusive};
use super::connection::{
    IdentifiedSource, KeptOpen, LONGEST_SILENCE, Loan, MinReplicas, ReplicaConnections,
    SharedConnection, Source, diagnose, is_of_server,
};
use super::health::{OutageLog, Sample, ServerIdentity};
use super::pending_undo::{PendingUndos, SentUndo};
use super::pubsub::{HandoverWatchdog, Registry};
use super::siblings::Siblings;
use crate::backend::{Claim, Release};
use crate::clock::Moment;
use crate::denial::Denial;
use crate::error::NodeErrorKind;
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
    /// The nodes of the same group.
    pub(crate) siblings: Siblings,
}

#[cfg(test)]
impl Default for NodeOptions {
    fn default() -> Self {
        let reports = Arc::new(Reports::new(CLOCK));
        let (client, prefix, siblings) = ("test".into(), "".into(), Siblings::default());
        Self { client, reports, prefix, founders_key: None, min_replicas: None, siblings }
    }
}

/// One server, whichever connection a caller uses.
pub(crate) struct NodeCore<S: Source> {
    pub(crate) name: String,
    pub(crate) health: OutageLog,
    pub(crate) identity: Arc<ServerIdentity>,
    pub(crate) source: Arc<IdentifiedSource<S>>,
    /// Renewals have a connection of their own: they never queue after the commands of callers.
    pub(crate) renewals: SharedConnection<S>,
    /// Made when a renewal finds a lock lost over a connection that is not the latest, to ask
    /// again: the connection for renewals may lead to the master before a failover. It takes the
    /// place of that one when it answers.
    pub(crate) next_renewals: SharedConnection<S>,
    pub(crate) replicated: Option<(MinReplicas, ReplicaConnections<S>)>,
    pub(crate) siblings: Siblings,
    pub(crate) pending_undos: PendingUndos,
    kept_open: Arc<KeptOpen>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) handovers: HandoverWatchdog,
    /// Whether the user may not touch the helper keys: releases name the lock alone.
    pub(crate) release_keys_denial: Denial,
    /// Whether it is denied the script that acquires several locks.
    pub(crate) all_denial: Denial,
    /// Whether it is denied the script that releases several locks.
    pub(crate) release_all_denial: Denial,
    /// Whether no script may name keys of several hash slots.
    pub(crate) slots_denial: Denial,
}

impl<S: Source> NodeCore<S> {
    pub(crate) fn new(name: String, source: S, options: NodeOptions) -> Self {
        let NodeOptions { client, reports, prefix, founders_key, min_replicas, siblings } = options;
        let identity = Arc::new(ServerIdentity::new(name.clone(), founders_key));
        let pending_undos = PendingUndos::default();
        siblings.join(&identity, &pending_undos);
        let registry = Arc::new(Registry::new(source.channel(&prefix)));
        let shown = connection_name(&client);
        let source = Arc::new(IdentifiedSource::new(source, shown, &identity));
        let renewals = || SharedConnection::of(Arc::clone(&source), &exclusive::renew::SCRIPT);
        let connections = |replicas| (replicas, ReplicaConnections::new(Arc::clone(&source)));
        Self {
            health: OutageLog::new(&name, client, reports, S::LEADS_TO_ONE),
            name,
            identity,
            renewals: renewals(),
            next_renewals: renewals(),
            replicated: min_replicas.map(connections),
            source,
            siblings,
            pending_undos,
            kept_open: Arc::default(),
            registry,
            handovers: HandoverWatchdog::default(),
            release_keys_denial: Denial::default(),
            all_denial: Denial::default(),
            release_all_denial: Denial::default(),
            slots_denial: Denial::default(),
        }
    }

    /// The replicas that have to confirm what a command writes.
    pub(super) fn min_replicas(&self) -> Option<MinReplicas> {
        self.replicated.as_ref().map(|(replicas, _)| *replicas)
    }

    /// Learns from the server's time, which every answer to an acquire or a renewal brings. Where
    /// the answers are those of several servers, each of them has a clock of its own.
    pub(crate) fn heard_time(&self, micros: i64, sent: Moment) {
        if S::LEADS_TO_ONE {
            self.identity.hear(Sample { micros, sent, received: CLOCK.now() });
        }
    }

    /// Undoes an unanswered acquire, or an enqueue if it `may_be_queued`: it may still be carried
    /// out. Sends a release on the connection of the command, because only there the order of the
    /// two is certain, and keeps the connection open for it. The owner is pending until the answer
    /// has come. Where the connection ends before, it stays so until the owner lets go of this
    /// server, which is asked again under another owner value (`backend/quorum/grant_table.rs`).
    /// The acquire may then take the lock for nobody: the clean-ups on other connections
    /// (`release/clean_up.rs`) free it, unless it lands later than those are repeated.
    ///
    /// Nothing is undone on a server to which another node of the group leads as well: the lock of
    /// this owner there may be the vote of that node, which releases it with all the others.
    pub(crate) fn undo(
        self: &Arc<Self>,
        home: Option<&Handle>,
        mut loan: Loan<S::Connection>,
        claim: &Claim,
        may_be_queued: bool,
    ) {
        if may_be_queued {
            self.registry.gave_up(claim);
        }
        // Without a runtime, as at the end of one, the connection ends as well.
        let Some(home) = home.cloned().or_else(|| Handle::try_current().ok()) else { return };
        let claim = claim.clone();
        // To the server of this connection, which may not be the one that answers now.
        let to = loan.connection.met().run_id.clone();
        let process = to.clone().or_else(|| self.identity.answering());
        if process.is_some_and(|process| self.siblings.lead_to(&process, &self.identity)) {
            return;
        }
        let undo = self.pending_undos.sent(&claim.owner, to);
        let kept_open = Arc::clone(&self.kept_open);
        home.spawn(async move {
            let release = Release { may_be_queued, ..Release::of(&claim) };
            let call = by_kind::release(release, true);
            let same = loan.clone();
            let sent = pin!(send_undo(&call, &mut loan));
            let answer = answer_to_undo::<S>(sent, &same, &kept_open, &undo, claim.expire).await;
            let Some(mut answer) = answer else { return };
            if matches!(&answer, Err(error) if kind(error) == NodeErrorKind::NoPermission) {
                // The user may not use the queue of the lock: only the lock itself is released.
                let (again, mut behind) = (by_kind::release(release, false), same.clone());
                let sent = timeout(claim.expire, send_undo(&again, &mut behind));
                let Ok(answered) = sent.await else { return };
                answer = answered;
            }
            // What the release found does not matter here: the engine releases once more, on a
            // fresh connection. A refusal is an answer, too: nothing is left on its way.
            if answer.as_ref().err().is_none_or(|error| is_of_server(kind(error))) {
                same.heard();
                undo.answered();
            }
        });
    }
}

/// Whether it was sent a second time makes no difference here.
async fn send_undo<C>(call: &ScriptCall, loan: &mut Loan<C>) -> RedisResult<()>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let mut was_cut = false;
    call.send(loan, &mut was_cut).await.map(drop)
}

/// The answer to a release that was `sent` on this connection. The connection stays open until the
/// lease of the owner is over, and for as long as the owner may hold the lock on other servers.
/// `None`: until then no answer has come, or the connection was one of too many that do not answer.
async fn answer_to_undo<S: Source>(
    mut sent: Pin<&mut (impl Future<Output = RedisResult<()>> + Send)>,
    loan: &Loan<S::Connection>,
    kept_open: &KeptOpen,
    undo: &SentUndo,
    expire: Duration,
) -> Option<RedisResult<()>> {
    if let Ok(answer) = timeout(LONGEST_SILENCE, sent.as_mut()).await {
        return Some(answer);
    }
    // Callers that go away before their time is up do not notice that it is dead.
    if S::LEADS_TO_ONE {
        loan.give_up();
    }
    let must_close = loan.keep_open(kept_open);
    // Not before the lease is over: an owner may be settled long before the server has read the
    // release.
    let is_over = async {
        sleep(expire.saturating_sub(LONGEST_SILENCE)).await;
        undo.settled.cancelled().await;
    };
    tokio::select! {
        answer = sent => Some(answer),
        () = is_over => None,
        () = must_close.cancelled() => None,
    }
}

fn kind(error: &RedisError) -> NodeErrorKind {
    diagnose("", error).error.kind()
}

/// A connection name must have no spaces, and ASCII only.
fn connection_name(client: &str) -> Arc<str> {
    let fitting = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    format!("redlock:{}", client.chars().map(fitting).collect::<String>()).into()
}

#[cfg(test)]
mod tests;
