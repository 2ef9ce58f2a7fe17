//! Local connections: one connection on each runtime of callers.
//!
//! A command that is awaited on the runtime of its connection needs no hop to another thread. Such
//! a connection ends with its runtime, so it is never the only one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::source::Source;
use crate::backend::redis::route::Route;
use crate::clock::paused_runtime;
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

/// The routes to a node over connections of callers' runtimes.
pub(crate) struct LocalRoutes<S: Source> {
    runtimes: Arc<Runtimes<S>>,
    /// A fork copies this memory, and the sockets with it.
    process: u32,
    over: CancellationToken,
    _end: DropGuard,
}

impl<S: Source> Default for LocalRoutes<S> {
    fn default() -> Self {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        Self { runtimes: Arc::default(), process: process::id(), over, _end: end }
    }
}

impl<S: Source> LocalRoutes<S> {
    /// The route of the caller's runtime. `None`: there is none yet, or there cannot be one.
    pub(crate) fn here(&self, node: &Route<S>) -> Option<Arc<Route<S>>> {
        // Only a panic shows whether a runtime has I/O.
        if !S::IS_PORTABLE || node.core.replicated.is_some() || cfg!(panic = "abort") {
            return None;
        }
        if self.process != process::id() {
            return None;
        }
        let here = Handle::try_current().ok()?;
        // A clock that jumps while a reply is awaited cannot bound a command.
        if paused_runtime().is_some() {
            return None;
        }
        let mut runtimes = self.runtimes.lock();
        let (route, calls_before) = match runtimes.entry(here.id()) {
            Entry::Occupied(mut state) => match state.get_mut() {
                RuntimeState::Open { route, .. } if route.calls.is_connected() => {
                    return Some(Arc::clone(route));
                }
                RuntimeState::Open { route, calls_before, .. } if route.calls.fell_silent() => {
                    let more = calls_before.saturating_mul(CALLS_AFTER_SILENCE);
                    let calls_before = more.min(MOST_CALLS_BEFORE);
                    state.insert(RuntimeState::Wanted { calls: 1, calls_before });
                    return None;
                }
                RuntimeState::Open { route, calls_before, .. } => {
                    let route = (Arc::clone(route), *calls_before);
                    state.insert(RuntimeState::Opening);
                    route
                }
                RuntimeState::Wanted { calls, calls_before } if *calls < *calls_before => {
                    *calls += 1;
                    return None;
                }
                // The connection of the background thread shows whether the server refuses this
                // client.
                RuntimeState::Wanted { .. } if !node.calls.is_connected() => return None,
                RuntimeState::Wanted { calls_before, .. } => {
                    let calls_before = *calls_before;
                    state.insert(RuntimeState::Opening);
                    (Arc::new(node.on(&here)), calls_before)
                }
                RuntimeState::Opening | RuntimeState::Closed => return None,
            },
            Entry::Vacant(state) => {
                state.insert(RuntimeState::Wanted { calls: 1, calls_before: CALLS_BEFORE });
                if runtimes.len() > MOST_RUNTIMES {
                    // Most of these runtimes have ended since; their end is not reported.
                    runtimes.retain(|_, state| !matches!(state, RuntimeState::Wanted { .. }));
                }
                return None;
            }
        };
        drop(runtimes);
        self.open(route, &here, calls_before);
        None
    }

    fn open(&self, route: Arc<Route<S>>, home: &Handle, calls_before: u32) {
        let runtimes = Arc::downgrade(&self.runtimes);
        let opening = Opening { runtimes, id: home.id(), calls_before, has_entry: true };
        home.spawn(opening.stay(route, self.over.clone()));
    }
}

/// The runtimes that have a connection, will have one, or cannot have one.
struct Runtimes<S: Source> {
    by_runtime: Mutex<HashMap<runtime::Id, RuntimeState<S>>>,
}

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

impl<S: Source> Default for Runtimes<S> {
    fn default() -> Self {
        Self { by_runtime: Mutex::default() }
    }
}

impl<S: Source> Runtimes<S> {
    fn lock(&self) -> MutexGuard<'_, HashMap<runtime::Id, RuntimeState<S>>> {
        self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the entry of a runtime for as long as the runtime lives, or until another takes its place.
struct Opening<S: Source> {
    runtimes: Weak<Runtimes<S>>,
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
mod tests {
    use super::*;
    use crate::backend::LocalConnection;
    use crate::backend::redis::connection::Scripted;
    use crate::backend::redis::{NodeOptions, RedisNode};

    fn node() -> RedisNode {
        RedisNode::open("redis://127.0.0.1:1", None, NodeOptions::default()).unwrap()
    }

    fn places<S: Source>(node: &RedisNode<S>) -> usize {
        node.local().runtimes.lock().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_seen_at_once_and_gets_no_local_connection() {
        assert!(paused_runtime().is_some());
        let node = node();
        assert!(node.local_connection().is_none());
        assert_eq!(places(&node), 0);
        tokio::time::resume();
        assert!(paused_runtime().is_none());
    }

    #[test]
    fn outside_of_a_runtime_there_is_no_local_connection() {
        assert!(node().local_connection().is_none());
    }

    /// Opens a connection as if this runtime had sent enough commands.
    fn open<S: Source>(node: &RedisNode<S>) {
        let (local, here) = (node.local(), Handle::current());
        local.runtimes.lock().insert(here.id(), RuntimeState::Opening);
        local.open(Arc::new(node.route.on(&here)), &here, CALLS_BEFORE);
    }

    #[test]
    fn a_runtime_without_io_is_asked_once_and_forgotten_with_its_end() {
        let node = node();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            open(&node);
            for _ in 0..100 {
                assert!(node.local_connection().is_none());
                tokio::task::yield_now().await;
            }
            let id = Handle::current().id();
            let places = node.local().runtimes.lock();
            assert!(matches!(places.get(&id), Some(RuntimeState::Closed)));
        });
        drop(runtime);
        assert_eq!(places(&node), 0);
    }

    #[tokio::test]
    async fn the_task_that_keeps_a_connection_ends_with_it() {
        let node = RedisNode::new("x".to_owned(), Scripted::default(), NodeOptions::default());
        let tasks = || Handle::current().metrics().num_alive_tasks();
        for _ in 0..3 {
            open(&node);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!((places(&node), tasks()), (1, 1));
    }

    /// The address of the node has no server.
    #[tokio::test]
    async fn a_local_connection_that_cannot_be_opened_is_forgotten() {
        let node = node();
        open(&node);
        while places(&node) > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_runtime_that_asks_seldom_gets_none() {
        let node = node();
        for _ in 0..2 * CALLS_BEFORE {
            assert!(node.local_connection().is_none());
        }
        let places = node.local().runtimes.lock();
        // Without a connection to the server, more calls do not open one either.
        assert!(places.values().all(|place| matches!(place, RuntimeState::Wanted { .. })));
    }
}
