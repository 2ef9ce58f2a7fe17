//! Counts what must still reach Redis, so that a shutdown can wait for it.

use std::sync::Arc;

use tokio::sync::watch;

/// The commands of one client that are on their way and would leave a lock behind if they were cut.
#[derive(Debug)]
pub(crate) struct Pending {
    count: Arc<watch::Sender<usize>>,
}

impl Default for Pending {
    fn default() -> Self {
        Self { count: Arc::new(watch::Sender::new(0)) }
    }
}

impl Pending {
    pub(crate) fn begin(&self) -> PendingGuard {
        self.count.send_modify(|count| *count += 1);
        PendingGuard { count: Arc::clone(&self.count) }
    }

    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until nothing is pending. Cancel safe.
    pub(crate) async fn settled(&self) {
        // The sender lives in `self`: the channel cannot close while we wait.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// One command on its way.
#[derive(Debug)]
pub(crate) struct PendingGuard {
    count: Arc<watch::Sender<usize>>,
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settled_waits_for_every_guard() {
        let now = std::time::Duration::ZERO;
        let pending = Pending::default();
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
