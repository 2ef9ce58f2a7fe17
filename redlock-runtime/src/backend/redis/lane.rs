//! Connections on the runtimes of callers, one for each of them.
//!
//! A command that is awaited where its connection lives needs no hop to another thread. Such a
//! connection ends with its runtime, so it is never the only one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::link::Link;
use super::node::RedisNode;
use super::source::Source;
use crate::backend::Backend;

/// So many commands of a runtime go by way of the keeper first: one that ends after a few is not
/// worth a connection.
const CALLS_BEFORE: u32 = 16;
/// So many runtimes are kept in mind before those without a lane are forgotten.
const MOST_PLACES: usize = 256;
/// How long the connection of a lane may take.
const CONNECT: Duration = Duration::from_secs(5);

/// What only a node itself has, and its lanes have not.
pub(super) struct Stem<S: Source> {
    places: Arc<Places<S>>,
    is_on_duty: AtomicBool,
    /// A fork copies this memory, and the sockets of lanes with it.
    process: u32,
    over: CancellationToken,
    _end: DropGuard,
}

impl<S: Source> Default for Stem<S> {
    fn default() -> Self {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        let (places, is_on_duty) = (Arc::default(), AtomicBool::new(false));
        Self { places, is_on_duty, process: std::process::id(), over, _end: end }
    }
}

impl<S: Source> Stem<S> {
    /// What ends the duty. `None`: it was begun before.
    pub(super) fn begin_duty(&self) -> Option<CancellationToken> {
        (!self.is_on_duty.swap(true, Ordering::Relaxed)).then(|| self.over.clone())
    }
}

/// The runtimes that have a lane, or shall have none.
struct Places<S: Source> {
    by_runtime: Mutex<HashMap<runtime::Id, Place<S>>>,
}

enum Place<S: Source> {
    /// It would have been used as often: too seldom for a connection of its own.
    Wanted {
        calls: u32,
    },
    /// Its connection is being made.
    Opening,
    Open(Arc<RedisNode<S>>),
    /// This runtime cannot have one.
    Closed,
}

impl<S: Source> Default for Places<S> {
    fn default() -> Self {
        Self { by_runtime: Mutex::default() }
    }
}

impl<S: Source> Places<S> {
    fn lock(&self) -> MutexGuard<'_, HashMap<runtime::Id, Place<S>>> {
        self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Source> RedisNode<S> {
    /// The lane of the caller's runtime. `None`: there is none yet, or there cannot be one.
    pub(super) fn lane_here(&self) -> Option<Arc<dyn Backend>> {
        // Whether a runtime has I/O shows only by a panic.
        if !S::IS_PORTABLE || self.core.replicated.is_some() || cfg!(panic = "abort") {
            return None;
        }
        let stem = self.stem.as_ref().filter(|stem| stem.process == std::process::id())?;
        let here = Handle::try_current().ok()?;
        let mut places = stem.places.lock();
        let lane = match places.entry(here.id()) {
            Entry::Occupied(mut place) => match place.get_mut() {
                Place::Open(lane) if lane.calls.is_connected() => {
                    return Some(Arc::clone(lane) as Arc<dyn Backend>);
                }
                Place::Open(lane) => {
                    let lane = Arc::clone(lane);
                    place.insert(Place::Opening);
                    lane
                }
                Place::Wanted { calls } if *calls < CALLS_BEFORE => {
                    *calls += 1;
                    return None;
                }
                // The server may be one that refuses us: the keeper's connection shows it.
                Place::Wanted { .. } if !self.calls.is_connected() => return None,
                Place::Wanted { .. } => {
                    place.insert(Place::Opening);
                    Arc::new(self.lane(&here))
                }
                Place::Opening | Place::Closed => return None,
            },
            Entry::Vacant(place) => {
                place.insert(Place::Wanted { calls: 1 });
                if places.len() > MOST_PLACES {
                    // Most of these runtimes have ended since, which nobody told us.
                    places.retain(|_, place| !matches!(place, Place::Wanted { .. }));
                }
                return None;
            }
        };
        drop(places);
        let opening = Opening { places: Arc::downgrade(&stem.places), id: here.id() };
        here.spawn(opening.stay(lane, stem.over.clone()));
        None
    }

    fn lane(&self, home: &Handle) -> Self {
        let calls = Arc::new(Link::new(Arc::clone(&self.core.source)));
        Self { core: Arc::clone(&self.core), calls, home: Some(home.clone()), stem: None }
    }
}

/// The place of a lane, for as long as its runtime lives.
struct Opening<S: Source> {
    places: Weak<Places<S>>,
    id: runtime::Id,
}

impl<S: Source> Opening<S> {
    /// Opens the lane, and stays until its runtime or its node ends.
    async fn stay(self, lane: Arc<RedisNode<S>>, over: CancellationToken) {
        let calls = Arc::clone(&lane.calls);
        // Without I/O or time this panics: in a task of its own, where that harms nobody.
        let place = match tokio::spawn(async move { connect(&calls).await }).await {
            Ok(Verdict::Connected) => Place::Open(lane),
            Ok(Verdict::NotNow) => return,
            Ok(Verdict::Never) | Err(_) => Place::Closed,
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

enum Verdict {
    Connected,
    NotNow,
    Never,
}

async fn connect<S: Source>(link: &Link<S>) -> Verdict {
    let (real, shown) = (Instant::now(), tokio::time::Instant::now());
    let made = timeout(CONNECT, link.borrow()).await;
    let (real, shown) = (real.elapsed(), shown.elapsed());
    // A paused clock stands still, or jumps: it cannot bound what happens in real time.
    if shown.is_zero() || shown > real + CONNECT / 2 {
        return Verdict::Never;
    }
    match made {
        Ok(Ok(_)) => Verdict::Connected,
        Ok(Err(_)) | Err(_) => Verdict::NotNow,
    }
}
