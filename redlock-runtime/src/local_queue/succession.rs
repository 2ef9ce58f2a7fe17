//! Who has a lock of this process next, once its holder releases it.

use super::queue::{LocalQueue, QueueHandle};
use super::state::QueueState;
use super::waiter::Waiter;
use crate::clock::Moment;
use crate::hold::{Hold, Tenure, Terms};

impl QueueHandle {
    /// The holder releases. Its tenure goes to the next waiter of this process, at once, or after
    /// the poller has given other processes their turn; or to nobody.
    pub(crate) fn next(&self, hold: &Hold, tenure: Tenure, now: Moment) -> Successor<'_> {
        let mut state = self.state();
        let holder = state.holder.take_if(|holder| holder.id == hold.id);
        let next = match state.first().map(|waiter| waiter.terms) {
            None => Successor::Nobody(tenure),
            Some(terms) => self.next_waiter(&mut state, terms, hold, holder.is_some(), tenure, now),
        };
        let is_free = matches!(next, Successor::Nobody(_));
        state.is_freed |= is_free;
        // Where the last waiter has left, a poller in the queue of the server must leave it.
        let must_wake = if state.waiters.is_empty() { state.poller.is_waiting() } else { is_free };
        drop(state);
        // Outside of the mutex: this may be the last reference.
        drop(holder);
        if must_wake || matches!(next, Successor::Poller) {
            self.news.notify_one();
        }
        next
    }

    /// Who has the lock next after `hold` where a caller waits, which wants it on these terms.
    #[cold]
    fn next_waiter(
        &self,
        state: &mut QueueState,
        terms: Terms,
        hold: &Hold,
        is_holder: bool,
        mut tenure: Tenure,
        now: Moment,
    ) -> Successor<'_> {
        // The poller has a tenure already. The key was deleted in Redis, so that two callers of
        // this process held it at once: this tenure is released.
        if state.returned.is_some() {
            return Successor::Nobody(tenure);
        }
        // The next caller must get a full lease, as this process may die, and a `min_hold` begins
        // with a command. Where another caller became the holder meanwhile, the key was deleted,
        // and the poller has the server say what is left of this tenure.
        if is_holder
            && terms.min_hold.is_zero()
            && tenure.pass(terms.lease(), now)
            && let Some(waiter) = state.promise()
        {
            state.in_hand += 1;
            return Successor::Waiter(waiter, tenure, InHand { handle: self });
        }
        state.returned = Some(Box::new((tenure, hold.client.pending.begin())));
        Successor::Poller
    }

    /// The holder releases, and no caller of this process has the lock next.
    pub(crate) fn let_go(&self, hold: &Hold) {
        let mut state = self.state();
        let holder = state.holder.take_if(|holder| holder.id == hold.id);
        let is_waited_for = !state.waiters.is_empty();
        state.is_freed = true;
        drop(state);
        drop(holder);
        if is_waited_for {
            self.news.notify_one();
        }
    }
}

impl LocalQueue {
    /// A release hint came: another process has released the lock.
    pub(crate) fn freed(&self) {
        self.state().is_freed = true;
        self.news.notify_one();
    }
}

/// Who has the lock after its holder released it.
pub(crate) enum Successor<'a> {
    Waiter(Waiter, Tenure, InHand<'a>),
    /// The poller decides.
    Poller,
    Nobody(Tenure),
}

/// A waiter was taken out of the queue to be given the lock. Until this is dropped, it may be put
/// back.
pub(crate) struct InHand<'a> {
    handle: &'a QueueHandle,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.handle.state().in_hand -= 1;
    }
}
