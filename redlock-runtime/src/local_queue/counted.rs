//! A waiter, or a poller, as counted among those of its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One waiter, or one poller: its drop ends that it is counted.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// Counts one more, and says how many there were before.
    pub(super) fn one_more(counter: &Arc<AtomicUsize>) -> (Self, usize) {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        (Self(Arc::clone(counter)), before)
    }

    /// How many there are.
    pub(crate) fn of_all(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
