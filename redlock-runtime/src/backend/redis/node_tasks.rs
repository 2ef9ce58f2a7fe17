//! The background task of a node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::commands::{Deadline, exclusive, no_undo, send_script};
use super::connection::{SharedConnection, Source};
use super::health::outages;
use super::node_core::NodeCore;
use super::pubsub::Listening;
use super::route::Route;
use crate::backend::{BackgroundTask, CLAIM_WINDOW};
use crate::key::LockKey;
use crate::owner::Owner;

/// How long a nudge may take.
const REPLY: Duration = Duration::from_secs(1);

/// The background task of a node.
pub(crate) struct NodeTasks<S: Source> {
    listening: Listening<S>,
    has_begun: AtomicBool,
}

impl<S: Source> NodeTasks<S> {
    pub(crate) fn new(route: &Route<S>) -> Self {
        let listening = Listening { route: route.clone() };
        Self { listening, has_begun: AtomicBool::new(false) }
    }

    /// The task ends with `over`. `None`: it was begun before.
    pub(crate) fn begin(&self, over: &CancellationToken) -> Option<BackgroundTask> {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (over, listening) = (over.clone(), self.listening.clone());
        Some(Box::pin(async move {
            let all = async {
                tokio::join!(
                    listening.listen(),
                    nudge_overdue(&listening.route),
                    outages::watch(&listening.route.core)
                )
            };
            tokio::select! {
                () = over.cancelled() => {}
                _ = all => {}
            }
        }))
    }
}

/// Nudges locks that were handed over to a process that may be dead.
async fn nudge_overdue<S: Source>(Route { core, calls, .. }: &Route<S>) {
    loop {
        for (key, owner) in core.handovers.overdue().await {
            let free_soon = nudge(core, calls, &key, &owner).await;
            if let Some(free_in) = free_soon {
                core.handovers.look_again(&key, &owner, free_in);
            }
        }
    }
}

/// Hands the lock to the first process of its queue if it is free. Otherwise returns when it may be
/// free, if processes wait and its receiver has not claimed it yet. `owner` is one of this client.
async fn nudge<S: Source>(
    core: &NodeCore<S>,
    calls: &SharedConnection<S>,
    key: &LockKey,
    owner: &Owner,
) -> Option<Duration> {
    let (call, decode) = (exclusive::nudge::call(key, owner), exclusive::nudge::decode);
    let deadline = Deadline::after(REPLY);
    // Waiters check by themselves if this fails.
    let nudged = send_script(&core.health, calls, &call, &deadline, decode, no_undo).await.ok()?;
    let (free_in, waiting) = nudged.found;
    free_in.filter(|free_in| waiting > 0 && *free_in <= CLAIM_WINDOW)
}
