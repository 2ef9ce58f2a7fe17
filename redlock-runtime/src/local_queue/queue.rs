//! The waiters of this process: one first-in, first-out queue per key, with one poller that makes
//! attempts for all of them.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

use tokio::runtime;
use tokio::sync::Notify;

use super::release_counts::ReleaseCounts;
use super::shutdowns::Shutdowns;
use super::state::{AttemptUnderWay, QueueState};
use crate::clock::Moment;
use crate::hold::{Hold, LossListener};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::mutex::Mutex;

mod handles;
mod shut_down;

/// The queues of one client.
#[derive(Debug, Default)]
pub(crate) struct LocalQueues {
    queues: Mutex<HashSet<ById>>,
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) max_waiters: usize,
    pub(super) pollers: Arc<AtomicUsize>,
    pub(crate) shutdowns: Arc<Shutdowns>,
    /// Releases that the background thread has still to send.
    pub(super) in_background: Arc<ReleaseCounts>,
    /// Releases that have left over the connection of a caller, and are not answered yet; clean-ups
    /// that are not answered yet, and abandoned commands, which such releases follow.
    pub(super) leaving: Arc<ReleaseCounts>,
}

/// Which queue it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct QueueId {
    key: LockKey,
    /// `None`: real time.
    clock: Option<runtime::Id>,
    /// The caller that has the queue alone; zero: it is that of all callers.
    caller: u64,
}

/// A queue in the set of all, where it is found by its id.
#[derive(Debug)]
struct ById(Arc<LocalQueue>);

impl Borrow<QueueId> for ById {
    fn borrow(&self) -> &QueueId {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

/// The queue of one key. Redis alone decides who holds the lock; the state kept here only saves
/// commands.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    id: QueueId,
    pub(crate) kind: Kind,
    /// The number of queue handles. It rises from zero under the mutex of the set only.
    handles: AtomicUsize,
    state: Mutex<QueueState>,
    /// How many attempts the poller has made.
    pub(super) attempts: AtomicU32,
    /// Notified when the poller should look at the state again.
    pub(crate) news: Notify,
}

impl LocalQueues {
    pub(crate) fn new(max_waiters: usize) -> Arc<Self> {
        Arc::new(Self { max_waiters, ..Self::default() })
    }
}

impl LocalQueue {
    fn new(id: QueueId, kind: Kind) -> Self {
        Self {
            id,
            kind,
            handles: AtomicUsize::new(0),
            state: Mutex::default(),
            attempts: AtomicU32::new(0),
            news: Notify::new(),
        }
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.id.key
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

impl LossListener for LocalQueue {
    fn lock_lost(&self) {
        self.news.notify_one();
    }
}

/// A reference to the queue of a key, kept while waiting and while holding.
#[derive(Debug)]
pub(crate) struct QueueHandle {
    pub(super) shared: Arc<LocalQueues>,
    queue: Arc<LocalQueue>,
}

impl Deref for QueueHandle {
    type Target = Arc<LocalQueue>;

    fn deref(&self) -> &Arc<LocalQueue> {
        &self.queue
    }
}

impl QueueHandle {
    /// Lets a caller make a direct attempt, unless another caller waits or has the lock, or another
    /// process has competed for it since the last grant.
    pub(crate) fn attempt_first(&self, now: Moment) -> Option<DirectAttemptGuard> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut state = self.queue.state();
        if !state.waiters.is_empty() || state.is_taken_here(now) || state.was_just_contended() {
            return None;
        }
        state.spend_contention_credit();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        state.direct_attempt = Some(AttemptUnderWay { id, at: now });
        drop(state);
        Some(DirectAttemptGuard { handle: self.another(), id })
    }

    pub(crate) fn now_holds(&self, hold: &Arc<Hold>) {
        let before = {
            let mut state = self.queue.state();
            state.is_promised = false;
            state.holder.replace(Arc::clone(hold))
        };
        // Outside of the mutex: this may be the last reference.
        drop(before);
    }

    /// What a holder tells that it lost the lock.
    pub(crate) fn listener(&self) -> Weak<dyn LossListener> {
        let queue: Weak<LocalQueue> = Arc::downgrade(&self.queue);
        queue
    }
}

/// A direct attempt of a caller. Callers that come meanwhile wait for its end.
#[derive(Debug)]
pub(crate) struct DirectAttemptGuard {
    handle: QueueHandle,
    id: u64,
}

impl DirectAttemptGuard {
    /// Do other callers still wait for this one at `moment`?
    pub(crate) fn lasts_until(&self, moment: Moment) -> bool {
        let state = self.handle.queue.state();
        let is_current = state.direct_attempt.is_some_and(|attempt| attempt.id == self.id);
        is_current && state.direct_attempt_ends(moment).is_some()
    }
}

impl Drop for DirectAttemptGuard {
    fn drop(&mut self) {
        let queue = &self.handle.queue;
        let is_waited_for = {
            let mut state = queue.state();
            // This attempt may have been given up for slowness, and another caller may have begun
            // one since.
            if state.direct_attempt.is_some_and(|attempt| attempt.id == self.id) {
                state.direct_attempt = None;
            }
            !state.waiters.is_empty()
        };
        if is_waited_for {
            queue.news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
