//! The waiters of this process: one queue per key, first come first served, with one clerk that
//! asks Redis for all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime;
use tokio::sync::Notify;

use super::place::Waiter;
use super::shutdowns::{Shutdown, Shutdowns};
use super::state::{Clerking, Question, State};
use super::tenure::Tenure;
use crate::clock::Moment;
use crate::error::LockError;
use crate::key::LockKey;
use crate::release::Unsent;
use crate::renewal::Hold;

/// The queues of one client.
#[derive(Debug)]
pub(crate) struct Queues {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<HashMap<Place, Arc<Queue>>>,
    waiting: AtomicUsize,
    max_waiters: usize,
    shutdowns: Arc<Shutdowns>,
}

/// A key, and the clock by which its queue waits: `None` for real time.
type Place = (Option<runtime::Id>, Arc<str>);

/// The queue of one key. Redis alone decides who holds the lock; what is known here only spares
/// questions.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) key: LockKey,
    clock: Option<runtime::Id>,
    /// How many sit here. Rises from zero under the mutex of the map only.
    seats: AtomicUsize,
    state: Mutex<State>,
    /// How many questions the clerk has asked.
    asked: AtomicU32,
    /// Something happened that the clerk should look at.
    pub(super) news: Arc<Notify>,
}

impl Queues {
    pub(crate) fn new(max_waiters: usize) -> Self {
        let (queues, waiting) = (Mutex::default(), AtomicUsize::new(0));
        let shared = Shared { queues, waiting, max_waiters, shutdowns: Arc::default() };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn join(&self, key: &LockKey, clock: Option<runtime::Id>) -> Seat {
        let mut queues = self.shared.queues();
        let queue = queues.entry((clock, key.shared()));
        let queue = queue.or_insert_with(|| Arc::new(Queue::new(key.clone(), clock)));
        Seat::take(&self.shared, queue)
    }

    pub(crate) fn shutdowns(&self) -> &Shutdowns {
        &self.shared.shutdowns
    }

    /// Begins a shutdown: all who wait are told, and so is whoever would wait before it ends.
    pub(crate) fn shut_down(&self) -> Shutdown {
        // Counted first: who enters a queue after the look at it sees that.
        let shutdown = self.shared.shutdowns.begin();
        let queues: Vec<_> = self.shared.queues().values().map(Arc::clone).collect();
        for queue in queues {
            let waiters = std::mem::take(&mut queue.state().waiters);
            for waiter in waiters.into_iter() {
                waiter.answer(Err(queue.shutting_down()));
            }
            queue.news.notify_one();
        }
        shutdown.tell();
        shutdown
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, HashMap<Place, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn new(key: LockKey, clock: Option<runtime::Id>) -> Self {
        let (seats, asked) = (AtomicUsize::new(0), AtomicU32::new(0));
        Self { key, clock, seats, state: Mutex::default(), asked, news: Arc::default() }
    }

    /// The clerk asks a question.
    pub(super) fn asks(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// How many questions were asked for a waiter.
    pub(super) fn asked_for(&self, waiter: &Waiter) -> u32 {
        self.asked.load(Ordering::Relaxed).wrapping_sub(waiter.asked_before)
    }

    /// Somebody elsewhere let go of the lock.
    pub(super) fn freed(&self) {
        self.state().is_freed = true;
        self.news.notify_one();
    }

    fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { key: self.key.name().to_owned() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share in the queue of a key, kept while waiting and while holding.
#[derive(Debug)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    pub(super) queue: Arc<Queue>,
}

impl Seat {
    /// Lets a caller ask Redis by itself, if nobody came before it.
    pub(super) fn ask_first(&self, now: Moment) -> Option<Asking> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut state = self.queue.state();
        if !state.waiters.is_empty() || state.is_taken_here(now) || state.is_contended() {
            return None;
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        state.question = Some(Question { id, at: now });
        drop(state);
        Some(Asking { seat: self.another(), id })
    }

    /// Counts the caller as a waiter; `None`: there are too many.
    pub(super) fn wait(&self) -> Option<Arc<Waiting>> {
        let before = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting { shared: Arc::clone(&self.shared) };
        (before < self.shared.max_waiters).then(|| Arc::new(waiting))
    }

    /// Takes a waiter in: at the front if it asked before. Returns whether a clerk has to be
    /// called. While the client shuts down, the waiter is told so instead.
    pub(super) fn enter(&self, mut waiter: Waiter, asked: u32) -> bool {
        let mut state = self.queue.state();
        if self.shared.shutdowns.refuse(waiter.terms.shutdowns) {
            drop(state);
            waiter.answer(Err(self.queue.shutting_down()));
            return false;
        }
        waiter.asked_before = self.queue.asked.load(Ordering::Relaxed).wrapping_sub(asked);
        let end = waiter.end();
        if asked > 0 {
            state.waiters.push_front(waiter);
        } else {
            state.waiters.push_back(waiter);
        }
        let is_absent = state.clerk == Clerking::Absent;
        let is_news = state.needs_clerk(end);
        if is_absent {
            state.clerk = Clerking::Busy;
        }
        drop(state);
        if is_news && !is_absent {
            self.queue.news.notify_one();
        }
        is_absent
    }

    /// A waiter that could not be given the lock is the first one again.
    pub(super) fn put_back(&self, waiter: Waiter) {
        let mut state = self.queue.state();
        if !self.shared.shutdowns.refuse(waiter.terms.shutdowns) {
            return state.waiters.push_front(waiter);
        }
        drop(state);
        waiter.answer(Err(self.queue.shutting_down()));
    }

    /// A caller goes away. The clerk has `unsent` until it has done what follows from that.
    pub(super) fn leave(&self, id: u64, mut unsent: Option<Unsent>) {
        let gone = {
            let mut state = self.queue.state();
            let gone = state.waiters.remove(id);
            let is_clerks = match state.clerk {
                Clerking::Absent => false,
                Clerking::Busy => true,
                Clerking::Resting { .. } => gone.is_some(),
            };
            if is_clerks && state.left.is_none() {
                state.left = unsent.take();
            }
            gone
        };
        // Outside of the mutex: it may wake somebody.
        if gone.is_some() {
            self.queue.news.notify_one();
        }
    }

    pub(super) fn now_holds(&self, hold: &Arc<Hold>) {
        let before = {
            let mut state = self.queue.state();
            state.promised = 0;
            state.holder.replace(Arc::clone(hold))
        };
        // Outside of the mutex: it may be the last reference.
        drop(before);
    }

    /// The holder lets go. What it had goes to the next caller who waits here: at once, or once
    /// the clerk has looked after others. `Some`: nobody waits.
    pub(super) fn next(&self, hold: &Hold, mut tenure: Tenure, now: Moment) -> Next {
        let mut state = self.queue.state();
        let is_holder = state.holder.as_ref().is_some_and(|holder| holder.id == hold.id);
        let holder = if is_holder { state.holder.take() } else { None };
        let next = match state.first().map(|waiter| waiter.terms.expire) {
            None => Next::Nobody(tenure),
            // Two holders, as a key was deleted under the first: the clerk takes one back.
            Some(_) if state.returned.is_some() => Next::Nobody(tenure),
            Some(expire) if tenure.pass(expire, now) => match state.promise() {
                Some(waiter) => Next::Waiter(waiter, tenure),
                None => Next::Nobody(tenure),
            },
            Some(_) => {
                state.returned = Some(Box::new(tenure));
                Next::Clerk
            }
        };
        // A clerk in line stands there for nobody from here on.
        let stands_for_nobody = state.waiters.is_empty() && state.clerk.is_waiting();
        drop(state);
        // Outside of the mutex: it may be the last reference.
        drop(holder);
        if matches!(next, Next::Clerk) || stands_for_nobody {
            self.queue.news.notify_one();
        }
        next
    }

    /// Another seat at the same queue.
    pub(super) fn another(&self) -> Self {
        Self::take(&self.shared, &self.queue)
    }

    fn take(shared: &Arc<Shared>, queue: &Arc<Queue>) -> Self {
        queue.seats.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), queue: Arc::clone(queue) }
    }

    /// The holder lets go, and nobody here has the lock next.
    pub(crate) fn let_go(&self, hold: &Hold) {
        let mut state = self.queue.state();
        let is_holder = state.holder.as_ref().is_some_and(|holder| holder.id == hold.id);
        let holder = if is_holder { state.holder.take() } else { None };
        let is_waited_for = !state.waiters.is_empty();
        state.is_freed = true;
        drop(state);
        drop(holder);
        if is_waited_for {
            self.queue.news.notify_one();
        }
    }

    /// Would a question by the keeper's way alone come behind every release of this process?
    pub(super) fn is_late(&self) -> bool {
        self.queue.state().late_releases > 0
    }

    /// A release that is left to the keeper.
    pub(crate) fn late(self) -> Late {
        self.queue.state().late_releases += 1;
        Late { seat: self }
    }

    /// A release that those who wait here should wait for: nobody else tells them of it.
    pub(crate) fn freeing(self) -> Freeing {
        self.queue.state().releases += 1;
        Freeing { seat: self }
    }
}

/// A release that the keeper sends.
#[derive(Debug)]
pub(crate) struct Late {
    seat: Seat,
}

impl Drop for Late {
    fn drop(&mut self) {
        self.seat.queue.state().late_releases -= 1;
    }
}

/// A release on its way. Its end, whatever it is, is news for those who wait.
#[derive(Debug)]
pub(crate) struct Freeing {
    seat: Seat,
}

impl Drop for Freeing {
    fn drop(&mut self) {
        let queue = &self.seat.queue;
        let mut state = queue.state();
        state.releases -= 1;
        state.is_freed = true;
        drop(state);
        queue.news.notify_one();
    }
}

/// Who has a lock next that its holder let go of.
pub(super) enum Next {
    Waiter(Waiter, Tenure),
    /// The clerk sees to it.
    Clerk,
    Nobody(Tenure),
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.queue.seats.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut queues = self.shared.queues();
        // Somebody may have joined since, and left again, and another queue may be in its place.
        let place = (self.queue.clock, self.queue.key.shared());
        let is_ours = queues.get(&place).is_some_and(|known| Arc::ptr_eq(known, &self.queue));
        if is_ours && self.queue.seats.load(Ordering::Acquire) == 0 {
            let forgotten = queues.remove(&place);
            drop(queues);
            drop(forgotten);
        }
    }
}

/// A caller that asks Redis by itself. Those who come meanwhile wait for its end.
#[derive(Debug)]
pub(super) struct Asking {
    seat: Seat,
    id: u64,
}

impl Drop for Asking {
    fn drop(&mut self) {
        let queue = &self.seat.queue;
        let is_waited_for = {
            let mut state = queue.state();
            // It may have been given up, and another one asked since.
            if state.question.is_some_and(|question| question.id == self.id) {
                state.question = None;
            }
            !state.waiters.is_empty()
        };
        if is_waited_for {
            queue.news.notify_one();
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
mod tests;
