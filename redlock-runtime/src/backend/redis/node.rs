//! One Redis server as a backend, and the connections of callers' runtimes to it.
//!
//! A command that is awaited on the runtime of its connection needs no hop to another thread. Such
//! a connection ends with its runtime, so it is never the only one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use deadpool_redis::Pool;
use tokio::runtime;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::{Direct, Source, address};
use super::node_core::{NodeCore, NodeOptions};
use super::node_tasks;
use super::route::Route;
use crate::backend::{
    Abilities, Acquired, BackgroundTask, BackgroundWork, Claim, Found, LocalConnection,
    LockBackend, Release, Reply, Tls,
};
use crate::clock::paused_runtime;
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::mutex::Mutex;
use crate::process;

/// After how many commands over the background thread a runtime gets a connection. A runtime that
/// ends after a few commands is not worth one.
const CALLS_BEFORE: u32 = 64;
/// How many runtimes are remembered before those without a connection are forgotten.
const MOST_RUNTIMES: usize = 256;
/// After a silent connection, this many times as many commands go over the background thread. A
/// caller that blocks its runtime while it waits makes its connection silent.
const CALLS_AFTER_SILENCE: u32 = 16;
const MOST_CALLS_BEFORE: u32 = 16 * 1024;

/// One Redis server, and the connections of callers' runtimes to it.
pub(crate) struct RedisNode<S: Source = Direct> {
    /// Over the connection on the background thread.
    pub(crate) route: Route<S>,
    runtimes: Arc<Mutex<Runtimes<S>>>,
    /// A fork copies this memory, and the sockets with it.
    process: process::ProcessId,
    /// A runtime of a caller can have a connection.
    may_be_local: bool,
    has_background_task: AtomicBool,
    /// Ends the background task, and those that keep the connections of runtimes.
    over: CancellationToken,
    _end: DropGuard,
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
        // Only a panic shows whether a runtime has I/O.
        let may_be_local =
            S::IS_PORTABLE && options.min_replicas.is_none() && !cfg!(panic = "abort");
        let route = Route::new(NodeCore::new(name, source, options));
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        let (runtimes, process) = (Arc::default(), process::id());
        let has_background_task = AtomicBool::new(false);
        Self { route, runtimes, process, may_be_local, has_background_task, over, _end: end }
    }

    /// The route of the caller's runtime. `None`: there is none yet, or there cannot be one.
    fn here(&self) -> Option<Arc<Route<S>>> {
        if !self.may_be_local || self.process != process::id() {
            return None;
        }
        let here = Handle::try_current().ok()?;
        // A clock that jumps while a reply is awaited cannot bound a command.
        if paused_runtime().is_some() {
            return None;
        }
        let runtimes = self.runtimes.lock();
        match runtimes.get(&here.id()) {
            Some(RuntimeState::Open { route, .. }) if route.calls.is_connected() => {
                Some(Arc::clone(route))
            }
            _ => {
                self.connect_if_due(runtimes, &here);
                None
            }
        }
    }

    /// Counts one more command of a runtime without a connection, and connects when it has sent
    /// enough of them.
    #[cold]
    fn connect_if_due(&self, mut runtimes: MutexGuard<'_, Runtimes<S>>, here: &Handle) {
        let (route, calls_before) = match runtimes.entry(here.id()) {
            Entry::Occupied(mut state) => match state.get_mut() {
                RuntimeState::Open { route, calls_before, .. } if route.calls.fell_silent() => {
                    let more = calls_before.saturating_mul(CALLS_AFTER_SILENCE);
                    let calls_before = more.min(MOST_CALLS_BEFORE);
                    state.insert(RuntimeState::Wanted { calls: 1, calls_before });
                    return;
                }
                RuntimeState::Open { route, calls_before, .. } => {
                    let route = (Arc::clone(route), *calls_before);
                    state.insert(RuntimeState::Opening);
                    route
                }
                RuntimeState::Wanted { calls, calls_before } if *calls < *calls_before => {
                    *calls += 1;
                    return;
                }
                // The connection of the background thread shows whether the server refuses this
                // client.
                RuntimeState::Wanted { .. } if !self.route.calls.is_connected() => return,
                RuntimeState::Wanted { calls_before, .. } => {
                    let calls_before = *calls_before;
                    state.insert(RuntimeState::Opening);
                    (Arc::new(self.route.on(here)), calls_before)
                }
                RuntimeState::Opening | RuntimeState::Closed => return,
            },
            Entry::Vacant(state) => {
                state.insert(RuntimeState::Wanted { calls: 1, calls_before: CALLS_BEFORE });
                if runtimes.len() > MOST_RUNTIMES {
                    // Most of these runtimes have ended since; their end is not reported.
                    runtimes.retain(|_, state| !matches!(state, RuntimeState::Wanted { .. }));
                }
                return;
            }
        };
        drop(runtimes);
        self.connect_on(route, here, calls_before);
    }

    fn connect_on(&self, route: Arc<Route<S>>, home: &Handle, calls_before: u32) {
        let runtimes = Arc::downgrade(&self.runtimes);
        let opening = Opening { runtimes, id: home.id(), calls_before, has_entry: true };
        home.spawn(opening.stay(route, self.over.clone()));
    }
}

impl<S: Source> fmt::Debug for RedisNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.route.fmt(f)
    }
}

impl<S: Source> LockBackend for RedisNode<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.route.acquire(claim, within)
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        self.route.renew(claims, within)
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        self.route.release(release, within)
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.route.raise(claim, fencing_token, within)
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        self.route.verify(within)
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            release_hints: Some(&self.route),
            local_connection: Some(self),
            background_work: Some(self),
            ..self.route.abilities()
        }
    }
}

impl<S: Source> LocalConnection for RedisNode<S> {
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        let route = self.here()?;
        Some(route)
    }
}

impl<S: Source> BackgroundWork for RedisNode<S> {
    fn background_task(&self) -> Option<BackgroundTask> {
        let was_begun = self.has_background_task.swap(true, Ordering::Relaxed);
        (!was_begun).then(|| node_tasks::all(self.route.clone(), self.over.clone()))
    }
}

/// The runtimes that have a connection, will have one, or cannot have one.
type Runtimes<S> = HashMap<runtime::Id, RuntimeState<S>>;

enum RuntimeState<S: Source> {
    /// The runtime has sent this many commands, and gets a connection after `calls_before`.
    Wanted { calls: u32, calls_before: u32 },
    /// Its connection is being made.
    Opening,
    Open {
        route: Arc<Route<S>>,
        calls_before: u32,
        /// Ends the task that waits for the end of the runtime.
        _end: DropGuard,
    },
    /// This runtime cannot have a connection.
    Closed,
}

/// Keeps the entry of a runtime for as long as the runtime lives, or until another takes its place.
struct Opening<S: Source> {
    runtimes: Weak<Mutex<Runtimes<S>>>,
    id: runtime::Id,
    calls_before: u32,
    has_entry: bool,
}

impl<S: Source> Opening<S> {
    /// Connects, and stays until the connection is given up, or the runtime or the node ends.
    async fn stay(mut self, route: Arc<Route<S>>, over: CancellationToken) {
        let end = over.child_token();
        // Without I/O or time a connect panics: it runs in a task of its own, so the panic does no
        // harm.
        let state = match route.calls.make().await {
            Some(Ok(_)) => {
                let kept = end.clone().drop_guard();
                RuntimeState::Open { route, calls_before: self.calls_before, _end: kept }
            }
            Some(Err(_)) => return,
            None => RuntimeState::Closed,
        };
        if let Some(runtimes) = self.runtimes.upgrade() {
            runtimes.lock().insert(self.id, state);
        }
        end.cancelled().await;
        self.has_entry = false;
    }
}

impl<S: Source> Drop for Opening<S> {
    fn drop(&mut self) {
        if let Some(runtimes) = self.runtimes.upgrade().filter(|_| self.has_entry) {
            let state = runtimes.lock().remove(&self.id);
            drop(state);
        }
    }
}

#[cfg(test)]
mod tests;
