//! Counts commands that must still reach Redis, and grants on their way to the callers, so that a
//! shutdown can wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::notify_all::NotifyAll;

/// The commands of one client that are in flight, and its grants on their way to the callers: they
/// would leave a lock behind if the process ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingCommands {
    shared: Arc<PendingCount>,
}

#[derive(Debug, Default)]
struct PendingCount {
    count: AtomicUsize,
    /// No command is left pending.
    settled: NotifyAll,
}

impl PendingCommands {
    pub(crate) fn begin(&self) -> PendingCommand {
        self.shared.count.fetch_add(1, Ordering::SeqCst);
        PendingCommand { shared: Arc::clone(&self.shared) }
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// Waits until no command is pending. Cancel safe.
    pub(crate) async fn settled(&self) {
        while self.count() > 0 {
            self.shared.settled.unless(|| self.count() == 0).await;
        }
    }
}

/// One command in flight, or one grant on its way.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    shared: Arc<PendingCount>,
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        if self.shared.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.settled.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settled_waits_for_every_guard() {
        let now = std::time::Duration::ZERO;
        let pending = PendingCommands::default();
        tokio::time::timeout(now, pending.settled()).await.unwrap();
        let (first, second) = (pending.begin(), pending.begin());
        assert_eq!(pending.count(), 2);
        drop(first);
        assert_eq!(pending.count(), 1);
        let mut settled = std::pin::pin!(pending.settled());
        assert!(tokio::time::timeout(now, &mut settled).await.is_err());
        drop(second);
        assert_eq!(pending.count(), 0);
        settled.await;
    }
}
