//! Shutdowns of a client: while one is under way, no call waits for a lock, unless it is made
//! inside of a hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::notify_all::NotifyAll;

/// The shutdowns of one client: those that have begun, and those under way.
#[derive(Debug, Default)]
pub(crate) struct Shutdowns {
    begun: AtomicU64,
    under_way: AtomicUsize,
    news: NotifyAll,
}

impl Shutdowns {
    /// How many shutdowns have begun. A call notes this number when it begins, unless it is made
    /// inside of a hold of the client: what ends such a call is `acquire::inside`, once that hold
    /// is over.
    pub(crate) fn count(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Has a call to end that `noted` this?
    pub(crate) fn refuse(&self, noted: Option<u64>) -> bool {
        noted.is_some_and(|before| {
            self.under_way.load(Ordering::Relaxed) > 0 || self.count() != before
        })
    }

    /// Resolves when a call has to end that `noted` this: never if it noted nothing. Cancel safe.
    pub(crate) async fn begins_after(&self, noted: Option<u64>) {
        match noted {
            Some(_) => self.news.unless(|| self.refuse(noted)).await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when a further shutdown begins than those counted `before`. Cancel safe.
    pub(crate) async fn another_begins(&self, before: u64) {
        self.news.unless(|| self.count() != before).await;
    }

    pub(crate) fn begin(self: &Arc<Self>) -> Shutdown {
        // `SeqCst`, as the count of pending commands is: a call that is counted and then looks for
        // a shutdown, and a shutdown that begins and then looks at the count, do not miss each
        // other. A call that begins later, and notes the new number, sees that this is under way.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::SeqCst);
        Shutdown { shutdowns: Arc::clone(self) }
    }
}

/// A shutdown under way. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Shutdown {
    shutdowns: Arc<Shutdowns>,
}

impl Shutdown {
    pub(crate) fn tell(&self) {
        self.shutdowns.news.wake_all();
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        self.shutdowns.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
