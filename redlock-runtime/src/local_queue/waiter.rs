//! One waiting caller.

use tokio::sync::oneshot;

use crate::backend::Busy;
use crate::clock::Moment;
use crate::error::LockError;
use crate::hold::{Granted, Terms};
use crate::shield::shielded;

/// How a wait ends.
pub(crate) type Answer = Result<Granted, LockError>;

/// One caller in the queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) terms: Terms,
    end: Moment,
    /// How many attempts the poller had made when the caller came, less the caller's own.
    pub(crate) attempts_before: u32,
    /// That another owner has the lock, as the caller was told at this moment, by itself.
    pub(crate) refused: Option<(Busy, Moment)>,
    /// How often the lock was granted to it with nothing left of the lease.
    pub(crate) late_grants: u32,
    reply: oneshot::Sender<Answer>,
}

#[cfg(test)]
thread_local! {
    /// How often this thread has examined a waiter.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Waiter {
    /// A caller that waits no longer than until `end`.
    pub(crate) fn new(id: u64, terms: Terms, end: Moment, reply: oneshot::Sender<Answer>) -> Self {
        Self { id, terms, end, attempts_before: 0, refused: None, late_grants: 0, reply }
    }

    pub(crate) fn end(&self) -> Moment {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        self.end
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Ends the wait. Returns a lock that the caller cannot take because it has gone. A waker that
    /// panics runs after the answer was delivered.
    pub(crate) fn answer(self, answer: Answer) -> Option<Granted> {
        shielded(|| self.reply.send(answer).err().and_then(Result::ok)).flatten()
    }
}
