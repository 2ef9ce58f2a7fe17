//! The ability of a backend to notify waiters of a release, where no server keeps a queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::claim::Claim;
use super::outcome::{Found, Reply};
use crate::mutex::Mutex;

/// Called when a lock was released: on any thread, so it must not block.
pub(crate) type OnRelease = Arc<dyn Fn() + Send + Sync>;

/// The registrations of one request for a hint. Dropping it ends them in this process.
#[derive(Debug, Default)]
pub(crate) struct HintRegistration {
    registrations: Vec<Box<dyn fmt::Debug + Send + Sync>>,
    /// The request stays after a notification, so that it has to be cancelled.
    stays: bool,
    /// Which of several nodes have notified; on the others the request stays.
    told: Option<Arc<Mutex<Vec<bool>>>>,
}

impl HintRegistration {
    pub(crate) fn new(registration: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { registrations: vec![Box::new(registration)], ..Self::default() }
    }

    /// Of several nodes, each of which notes here that it has notified.
    pub(crate) fn by(self, told: Arc<Mutex<Vec<bool>>>) -> Self {
        Self { told: Some(told), ..self }
    }

    pub(crate) fn staying(self) -> Self {
        Self { stays: true, ..self }
    }

    pub(crate) fn stays(&self) -> bool {
        self.stays || self.told.as_ref().is_some_and(|told| told.lock().contains(&false))
    }
}

impl FromIterator<Self> for HintRegistration {
    fn from_iter<T: IntoIterator<Item = Self>>(all: T) -> Self {
        let mut joint = Self::default();
        for one in all {
            joint.registrations.extend(one.registrations);
            joint.stays |= one.stays;
        }
        joint
    }
}

/// Sends release hints to waiters.
pub(crate) trait ReleaseHints: Send + Sync {
    /// Requests one hint for the time when the lock of `claim` is released. The owner of the claim
    /// is used for nothing else. A hint may be lost, or come in vain; the server forgets the
    /// request after a minute at the latest, unless others queue for the lock.
    ///
    /// A request for an exclusive lock that several holders have keeps out others of shared kinds
    /// that come later, until it is cancelled, or for two seconds: without it, readers that never
    /// pause would keep a writer waiting for ever.
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        on_release: OnRelease,
        within: Duration,
    ) -> Reply<'a, HintRegistration>;

    /// Cancels a request.
    fn cancel_hint<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Found>;
}
