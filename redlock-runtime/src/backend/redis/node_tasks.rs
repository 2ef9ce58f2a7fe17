//! The background task of a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::commands::{Deadline, exclusive, no_undo, send_script};
use super::connection::{SharedConnection, Source};
use super::health::outages;
use super::node_core::NodeCore;
use super::pubsub::Listening;
use super::route::Route;
use crate::backend::{BackgroundTask, CLAIM_WINDOW, HealthCheck};
use crate::key::LockKey;
use crate::owner::Owner;
use crate::shield::shielded;
use crate::together::together;

/// How long the answer to `nudge.lua` may take.
const REPLY: Duration = Duration::from_secs(1);
/// How many of them are sent at once.
const AT_ONCE: usize = 64;

/// The background task of a node, until it is dropped: also by a panic, or with its runtime.
pub(crate) struct TaskGuard<S: Source> {
    pub(crate) route: Route<S>,
    /// Whether the node has such a task.
    pub(crate) runs: Arc<AtomicBool>,
}

impl<S: Source> Drop for TaskGuard<S> {
    /// Nothing listens for signals now, so waiters look for themselves. The next task finds out
    /// what has become of the server.
    fn drop(&mut self) {
        let core = &self.route.core;
        let _ = shielded(|| core.registry.unheard());
        core.health.broke();
        self.runs.store(false, Ordering::Release);
    }
}

/// Runs everything that a node does in the background, until `over` is cancelled. `health` says in
/// an outage whether it is over.
pub(crate) fn all<S: Source>(
    guard: TaskGuard<S>,
    health: Arc<dyn HealthCheck>,
    over: CancellationToken,
) -> BackgroundTask {
    Box::pin(async move {
        let route = &guard.route;
        let listening = Listening { route };
        let all = async {
            tokio::join!(
                listening.listen(),
                nudge_overdue(route),
                outages::watch(&route.core, &*health),
                follow(&route.core)
            )
        };
        tokio::select! {
            () = over.cancelled() => {}
            _ = all => {}
        }
    })
}

/// Leaves a server whose place another one has taken, as the source of the connections tells.
async fn follow<S: Source>(core: &NodeCore<S>) {
    loop {
        core.identity.leave(core.source.inner.moved().await);
        // Finds out which process answers now.
        core.health.broke();
    }
}

/// Nudges each lock that was handed over to a process that may be dead: `nudge.lua` hands the lock
/// to the next process if it is free.
async fn nudge_overdue<S: Source>(Route { core, connection, .. }: &Route<S>) {
    loop {
        let overdue = core.handovers.overdue().await;
        // Several at once: a server that is far, or a part of a cluster that does not answer,
        // delays them once, and not each of them.
        for some in overdue.chunks(AT_ONCE) {
            let nudges = some.iter().map(|lock| Box::pin(nudge_again(core, connection, lock)));
            together(nudges.collect()).await;
        }
    }
}

/// Nudges a lock, and plans to do so again if it may be free soon.
async fn nudge_again<S: Source>(
    core: &NodeCore<S>,
    connection: &SharedConnection<S>,
    (key, owner): &(LockKey, Owner),
) {
    if let Some(free_in) = nudge(core, connection, key, owner).await {
        core.handovers.look_again(key, owner, free_in);
    }
}

/// Sends `nudge.lua`, which hands the lock to the first process of its queue if the lock is free.
/// Otherwise returns after which time the lock may be free, if processes wait and its receiver has
/// not claimed it yet. `owner` is any owner of this client.
async fn nudge<S: Source>(
    core: &NodeCore<S>,
    connection: &SharedConnection<S>,
    key: &LockKey,
    owner: &Owner,
) -> Option<Duration> {
    let (call, decode) = (exclusive::nudge::call(key, owner), exclusive::nudge::decode);
    let deadline = Deadline::after(REPLY);
    // Waiters check by themselves if this fails.
    let sent = send_script(&core.health, connection, &call, &deadline, decode, no_undo);
    let (free_in, waiting) = sent.await.ok()?.reply;
    // Whoever has claimed the lock has a full lease. One that ends within the claim window may be
    // that of the hand-over.
    free_in.filter(|free_in| waiting > 0 && *free_in <= CLAIM_WINDOW)
}
