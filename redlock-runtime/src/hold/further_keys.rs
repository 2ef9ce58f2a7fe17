//! The keys of a hold besides its first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::backend::Claim;

/// The further keys of a hold that `lock_all` made. They are renewed, lost and released with the
/// first one.
#[derive(Debug)]
pub(crate) struct FurtherKeys {
    /// In the order of keys.
    pub(crate) claims: Vec<Claim>,
    /// Wakes waiters of this process for each of these keys when the hold is lost.
    pub(crate) news: Vec<Arc<Notify>>,
    /// Which key of the hold was found lost. 0 is the first key, and stands for all of them where
    /// their time was up.
    lost: AtomicUsize,
}

impl FurtherKeys {
    pub(crate) fn new(claims: Vec<Claim>, news: Vec<Arc<Notify>>) -> Self {
        Self { claims, news, lost: AtomicUsize::new(0) }
    }

    pub(super) fn found_lost(&self, place: usize) {
        self.lost.store(place, Ordering::Relaxed);
    }

    /// The further key that was found lost.
    pub(super) fn lost(&self) -> Option<&Claim> {
        self.claims.get(self.lost.load(Ordering::Relaxed).checked_sub(1)?)
    }
}
