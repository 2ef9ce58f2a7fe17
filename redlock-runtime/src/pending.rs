//! Counts what a client has not finished: commands that must still reach Redis, grants on their way
//! to the callers, and the locks that callers have. A shutdown waits for the commands and grants, a
//! drain for the locks as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::notify_all::NotifyAll;

/// What a lock adds to the number in which a command is one. Both are read at once: a lock whose
/// release begins counts in both parts for a moment, and so does a grant that becomes a lock: who
/// reads the number misses neither.
const LOCK: u64 = 1 << 32;

/// The commands of one client that are in flight, and its grants on their way to the callers: they
/// would leave a lock behind if the process ended. Beside them, the locks of its callers.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingCommands {
    shared: Arc<PendingCount>,
}

#[derive(Debug, Default)]
struct PendingCount {
    count: AtomicU64,
    /// Commands for which nobody waits any more.
    unawaited: AtomicUsize,
    /// How many wait for news; without any, nothing is told.
    watchers: AtomicUsize,
    /// No command is left pending.
    settled: NotifyAll,
}

impl PendingCommands {
    pub(crate) fn begin(&self) -> PendingCommand {
        self.shared.count.fetch_add(1, Ordering::SeqCst);
        PendingCommand { shared: Arc::clone(&self.shared) }
    }

    pub(crate) fn count(&self) -> usize {
        commands(self.shared.count())
    }

    /// The commands that are pending, and those for which nobody waits any more.
    pub(crate) fn under_way(&self) -> usize {
        self.count() + self.shared.unawaited.load(Ordering::Relaxed)
    }

    /// A caller has a lock until [`lock_ended`](Self::lock_ended). The lease may be lost meanwhile:
    /// it counts for as long as its body or guard may go on.
    pub(crate) fn lock_began(&self) {
        self.shared.count.fetch_add(LOCK, Ordering::SeqCst);
    }

    /// To be called after the release began to count as pending.
    pub(crate) fn lock_ended(&self) {
        self.shared.end(LOCK);
    }

    /// How many locks callers have, lost ones included.
    #[cfg(test)]
    pub(crate) fn locks(&self) -> usize {
        usize::try_from(self.shared.count() / LOCK).unwrap_or(usize::MAX)
    }

    /// How many commands are pending, and locks callers have, lost ones included.
    pub(crate) fn commands_and_locks(&self) -> usize {
        let count = self.shared.count();
        commands(count) + usize::try_from(count / LOCK).unwrap_or(usize::MAX)
    }

    /// Waits until no command is pending. Cancel safe.
    pub(crate) async fn settled(&self) {
        self.shared.until(|count| commands(count) == 0).await;
    }

    /// Waits until no command is pending and no caller has a lock. Cancel safe.
    pub(crate) async fn drained(&self) {
        self.shared.until(|count| count == 0).await;
    }
}

fn commands(count: u64) -> usize {
    usize::try_from(count % LOCK).unwrap_or(usize::MAX)
}

impl PendingCount {
    fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// `part`: one, or [`LOCK`]. Both operations are `SeqCst`, as those of a watcher are: it is
    /// counted and then looks at the count, so that one of the two sees the other.
    fn end(&self, part: u64) {
        let left = self.count.fetch_sub(part, Ordering::SeqCst) - part;
        if commands(left) == 0 && self.watchers.load(Ordering::SeqCst) > 0 {
            self.settled.wake_all();
        }
    }

    async fn until(&self, has_come: impl Fn(u64) -> bool) {
        let _watcher = Watcher::new(&self.watchers);
        while !has_come(self.count()) {
            self.settled.unless(|| has_come(self.count())).await;
        }
    }
}

/// Counted while it lives.
struct Watcher<'a> {
    watchers: &'a AtomicUsize,
}

impl<'a> Watcher<'a> {
    fn new(watchers: &'a AtomicUsize) -> Self {
        watchers.fetch_add(1, Ordering::SeqCst);
        Self { watchers }
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One command in flight, or one grant on its way.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    shared: Arc<PendingCount>,
}

impl PendingCommand {
    /// No shutdown waits for it any more.
    pub(crate) fn unawaited(self) -> UnawaitedCommand {
        self.shared.unawaited.fetch_add(1, Ordering::Relaxed);
        UnawaitedCommand { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        self.shared.end(1);
    }
}

/// One command that still has to reach Redis, for which nobody waits.
#[derive(Debug)]
pub(crate) struct UnawaitedCommand {
    shared: Arc<PendingCount>,
}

impl Drop for UnawaitedCommand {
    fn drop(&mut self) {
        self.shared.unawaited.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn settled_waits_for_every_guard() {
        let pending = PendingCommands::default();
        timeout(Duration::ZERO, pending.settled()).await.unwrap();
        let (first, second) = (pending.begin(), pending.begin());
        assert_eq!(pending.count(), 2);
        let first = first.unawaited();
        assert_eq!((pending.count(), pending.under_way()), (1, 2));
        drop(first);
        assert_eq!((pending.count(), pending.under_way()), (1, 1));
        let mut settled = std::pin::pin!(pending.settled());
        assert!(timeout(Duration::ZERO, &mut settled).await.is_err());
        drop(second);
        assert_eq!(pending.count(), 0);
        settled.await;
    }

    /// A lock does not keep a shutdown waiting, but what waits for the end of all locks.
    #[tokio::test]
    async fn drained_waits_for_locks_as_well() {
        let pending = PendingCommands::default();
        timeout(Duration::ZERO, pending.drained()).await.unwrap();
        pending.lock_began();
        let release = pending.begin();
        assert_eq!((pending.count(), pending.locks()), (1, 1));
        let mut drained = std::pin::pin!(pending.drained());
        assert!(timeout(Duration::ZERO, &mut drained).await.is_err());
        drop(release);
        timeout(Duration::ZERO, pending.settled()).await.unwrap();
        assert!(timeout(Duration::ZERO, &mut drained).await.is_err());
        pending.lock_ended();
        drained.await;
        assert_eq!((pending.count(), pending.locks()), (0, 0));
        assert_eq!(pending.shared.watchers.load(Ordering::SeqCst), 0);
    }
}
