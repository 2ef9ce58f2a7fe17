//! Connections on the runtimes of callers, one for each of them.
//!
//! A command that is awaited where its connection lives needs no hop to another thread. Such a
//! connection ends with its runtime, so it is never the only one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::source::Source;
use crate::backend::LockBackend;
use crate::backend::redis::RedisNode;
use crate::clock::paused_runtime;

/// So many commands of a runtime go by way of the background thread first: one that ends after a few is not
/// worth a connection.
const CALLS_BEFORE: u32 = 64;
/// So many runtimes are kept in mind before those without a lane are forgotten.
const MOST_PLACES: usize = 256;
/// After a lane that gave no answer, so many times as many go by way of the background thread. A caller that
/// blocks its runtime while it waits keeps a lane from answering.
const CALLS_AFTER_SILENCE: u32 = 16;
const MOST_CALLS_BEFORE: u32 = 16 * 1024;

/// What only a node itself has, and its lanes have not.
pub(crate) struct LocalConnections<S: Source> {
    places: Arc<Runtimes<S>>,
    is_on_duty: AtomicBool,
    /// A fork copies this memory, and the sockets of lanes with it.
    process: u32,
    over: CancellationToken,
    _end: DropGuard,
}

impl<S: Source> Default for LocalConnections<S> {
    fn default() -> Self {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        let (places, is_on_duty) = (Arc::default(), AtomicBool::new(false));
        Self { places, is_on_duty, process: std::process::id(), over, _end: end }
    }
}

impl<S: Source> LocalConnections<S> {
    /// What ends the duty. `None`: it was begun before.
    pub(crate) fn begin_duty(&self) -> Option<CancellationToken> {
        (!self.is_on_duty.swap(true, Ordering::Relaxed)).then(|| self.over.clone())
    }

    fn open(&self, lane: Arc<RedisNode<S>>, home: &Handle, calls_before: u32) {
        let places = Arc::downgrade(&self.places);
        let opening = Opening { places, id: home.id(), calls_before };
        home.spawn(opening.stay(lane, self.over.clone()));
    }
}

/// The runtimes that have a lane, or shall have none.
struct Runtimes<S: Source> {
    by_runtime: Mutex<HashMap<runtime::Id, RuntimeState<S>>>,
}

enum RuntimeState<S: Source> {
    /// It would have been used as often, and is made after so many calls.
    Wanted {
        calls: u32,
        calls_before: u32,
    },
    /// Its connection is being made.
    Opening,
    Open {
        lane: Arc<RedisNode<S>>,
        calls_before: u32,
    },
    /// This runtime cannot have one.
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

impl<S: Source> RedisNode<S> {
    /// The lane of the caller's runtime. `None`: there is none yet, or there cannot be one.
    pub(crate) fn lane_here(&self) -> Option<Arc<dyn LockBackend>> {
        // Whether a runtime has I/O shows only by a panic.
        if !S::IS_PORTABLE || self.core.replicated.is_some() || cfg!(panic = "abort") {
            return None;
        }
        let stem = self.stem.as_ref().filter(|stem| stem.process == std::process::id())?;
        let here = Handle::try_current().ok()?;
        // A clock that jumps while a reply is awaited cannot bound a command.
        if paused_runtime().is_some() {
            return None;
        }
        let mut places = stem.places.lock();
        let (lane, calls_before) = match places.entry(here.id()) {
            Entry::Occupied(mut place) => match place.get_mut() {
                RuntimeState::Open { lane, .. } if lane.calls.is_connected() => {
                    return Some(Arc::clone(lane) as Arc<dyn LockBackend>);
                }
                RuntimeState::Open { lane, calls_before } if lane.calls.fell_silent() => {
                    let more = calls_before.saturating_mul(CALLS_AFTER_SILENCE);
                    let calls_before = more.min(MOST_CALLS_BEFORE);
                    place.insert(RuntimeState::Wanted { calls: 1, calls_before });
                    return None;
                }
                RuntimeState::Open { lane, calls_before } => {
                    let lane = (Arc::clone(lane), *calls_before);
                    place.insert(RuntimeState::Opening);
                    lane
                }
                RuntimeState::Wanted { calls, calls_before } if *calls < *calls_before => {
                    *calls += 1;
                    return None;
                }
                // The server may be one that refuses us: the background thread's connection shows it.
                RuntimeState::Wanted { .. } if !self.calls.is_connected() => return None,
                RuntimeState::Wanted { calls_before, .. } => {
                    let calls_before = *calls_before;
                    place.insert(RuntimeState::Opening);
                    (Arc::new(self.lane_on(&here)), calls_before)
                }
                RuntimeState::Opening | RuntimeState::Closed => return None,
            },
            Entry::Vacant(place) => {
                place.insert(RuntimeState::Wanted { calls: 1, calls_before: CALLS_BEFORE });
                if places.len() > MOST_PLACES {
                    // Most of these runtimes have ended since, which nobody told us.
                    places.retain(|_, place| !matches!(place, RuntimeState::Wanted { .. }));
                }
                return None;
            }
        };
        drop(places);
        stem.open(lane, &here, calls_before);
        None
    }

    fn lane_on(&self, home: &Handle) -> Self {
        let calls = Arc::new(self.calls.on(home.clone()));
        Self { core: Arc::clone(&self.core), calls, home: Some(home.clone()), stem: None }
    }
}

/// The place of a lane, for as long as its runtime lives.
struct Opening<S: Source> {
    places: Weak<Runtimes<S>>,
    id: runtime::Id,
    calls_before: u32,
}

impl<S: Source> Opening<S> {
    /// Opens the lane, and stays until its runtime or its node ends.
    async fn stay(self, lane: Arc<RedisNode<S>>, over: CancellationToken) {
        // Without I/O or time a connect panics: in a task of its own, where that harms nobody.
        let place = match lane.calls.make().await {
            Some(Ok(_)) => RuntimeState::Open { lane, calls_before: self.calls_before },
            Some(Err(_)) => return,
            None => RuntimeState::Closed,
        };
        if let Some(places) = self.places.upgrade() {
            places.lock().insert(self.id, place);
        }
        over.cancelled().await;
    }
}

impl<S: Source> Drop for Opening<S> {
    fn drop(&mut self) {
        if let Some(places) = self.places.upgrade() {
            let place = places.lock().remove(&self.id);
            drop(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::NodeOptions;

    fn node() -> RedisNode {
        RedisNode::open("redis://127.0.0.1:1", None, NodeOptions::default()).unwrap()
    }

    fn places(node: &RedisNode) -> usize {
        node.stem.as_ref().unwrap().places.lock().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_seen_at_once_and_gets_no_lane() {
        assert!(paused_runtime().is_some());
        let node = node();
        assert!(node.local_connection().is_none());
        assert_eq!(places(&node), 0);
        tokio::time::resume();
        assert!(paused_runtime().is_none());
    }

    #[test]
    fn outside_of_a_runtime_there_is_no_lane() {
        assert!(node().local_connection().is_none());
    }

    /// As if this runtime had asked often enough.
    fn open(node: &RedisNode) {
        let (stem, here) = (node.stem.as_ref().unwrap(), Handle::current());
        stem.places.lock().insert(here.id(), RuntimeState::Opening);
        stem.open(Arc::new(node.lane_on(&here)), &here, CALLS_BEFORE);
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
            let places = node.stem.as_ref().unwrap().places.lock();
            assert!(matches!(places.get(&id), Some(RuntimeState::Closed)));
        });
        drop(runtime);
        assert_eq!(places(&node), 0);
    }

    /// Nobody listens at its address.
    #[tokio::test]
    async fn a_lane_that_cannot_be_opened_is_forgotten() {
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
        let places = node.stem.as_ref().unwrap().places.lock();
        // Without a connection to the server there is none after more calls, either.
        assert!(places.values().all(|place| matches!(place, RuntimeState::Wanted { .. })));
    }
}
