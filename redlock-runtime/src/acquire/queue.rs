//! The waiters of this process: one queue per key, first come first served, with one of them asking
//! Redis at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::fairness::Fairness;
use crate::key::LockKey;

/// The queues of one client.
#[derive(Debug)]
pub(crate) struct Queues {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<HashMap<Arc<str>, Arc<Queue>>>,
    waiting: AtomicUsize,
    max_waiters: usize,
}

/// The queue of one key. Redis alone decides who holds the lock; this only spares it questions.
#[derive(Debug, Default)]
struct Queue {
    /// Whoever has it asks Redis; tokio's mutex is fair.
    turn: tokio::sync::Mutex<()>,
    /// A holder in this process has released the lock.
    freed: Notify,
    holders: AtomicUsize,
    fairness: Mutex<Fairness>,
}

impl Queues {
    pub(crate) fn new(max_waiters: usize) -> Self {
        let shared = Shared { queues: Mutex::default(), waiting: AtomicUsize::new(0), max_waiters };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn join(&self, key: &LockKey) -> Seat {
        let key = key.shared();
        let queue = Arc::clone(self.shared.queues().entry(Arc::clone(&key)).or_default());
        Seat { shared: Arc::clone(&self.shared), key, queue, is_holder: false }
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue of a key, kept while waiting and while holding.
#[derive(Debug)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    key: Arc<str>,
    queue: Arc<Queue>,
    is_holder: bool,
}

/// The right to ask Redis.
pub(super) type Turn<'a> = tokio::sync::MutexGuard<'a, ()>;

impl Seat {
    /// The turn, if nobody waits before us.
    pub(super) fn try_turn(&self) -> Option<Turn<'_>> {
        self.queue.turn.try_lock().ok()
    }

    /// The turn, once all who came before have had theirs. Cancel safe: leaving gives the place up.
    pub(super) async fn turn(&self) -> Turn<'_> {
        self.queue.turn.lock().await
    }

    /// Counts the caller as a waiter; `None`: there are too many.
    pub(super) fn wait(&self) -> Option<Waiting> {
        let before = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting { shared: Arc::clone(&self.shared) };
        (before < self.shared.max_waiters).then_some(waiting)
    }

    /// Does somebody in this process hold the lock, as far as it knows?
    pub(super) fn is_held_here(&self) -> bool {
        self.queue.holders.load(Ordering::Acquire) > 0
    }

    /// Resolves when a holder of this process has released the lock. Cancel safe.
    pub(super) async fn until_freed(&self) {
        self.queue.freed.notified().await;
    }

    /// What is known of the share that others have of this lock.
    pub(super) fn fairness(&self) -> MutexGuard<'_, Fairness> {
        self.queue.fairness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From waiter to holder.
    pub(super) fn hold(mut self) -> Self {
        self.is_holder = true;
        self.queue.holders.fetch_add(1, Ordering::AcqRel);
        self
    }

    /// Another seat at the same queue.
    pub(super) fn another(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            key: Arc::clone(&self.key),
            queue: Arc::clone(&self.queue),
            is_holder: false,
        }
    }

    /// The lock is free: wakes the one that asks.
    pub(crate) fn freed(&self) {
        self.queue.freed.notify_one();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.is_holder {
            self.queue.holders.fetch_sub(1, Ordering::AcqRel);
        }
        let mut queues = self.shared.queues();
        // The map and this seat: nobody else sits here. Nobody can join while the map is locked.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.key);
        }
    }
}

/// One caller that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    shared: Arc<Shared>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> LockKey {
        LockKey::new("", name).unwrap()
    }

    #[test]
    fn an_empty_queue_leaves_nothing_behind() {
        let queues = Queues::new(1);
        let (first, second) = (queues.join(&key("a")), queues.join(&key("a")));
        assert_eq!(queues.shared.queues().len(), 1);
        drop(first);
        assert_eq!(queues.shared.queues().len(), 1);
        drop(second);
        assert!(queues.shared.queues().is_empty());
    }

    #[test]
    fn waiters_are_bounded_and_counted_back() {
        let queues = Queues::new(1);
        let seat = queues.join(&key("a"));
        let waiting = seat.wait().unwrap();
        assert!(seat.wait().is_none());
        drop(waiting);
        assert!(seat.wait().is_some());
    }

    #[tokio::test]
    async fn turns_are_given_in_the_order_of_coming() {
        let queues = Queues::new(9);
        let seats: Vec<Seat> = (0..3).map(|_| queues.join(&key("a"))).collect();
        let first = seats[0].try_turn().unwrap();
        let mut second = std::pin::pin!(seats[1].turn());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, &mut second).await.is_err());
        assert!(seats[2].try_turn().is_none());
        drop(first);
        // The turn is the second's already, though it has not been polled since.
        assert!(seats[2].try_turn().is_none());
        drop(second.await);
        assert!(seats[2].try_turn().is_some());
    }
}
