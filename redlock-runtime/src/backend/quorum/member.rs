//! One node of a quorum, and whether it is worth waiting for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, Claim, Fault};
use crate::error::NodeErrorKind;

/// How often a node that is down is asked whether it is back.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// When a release that failed is tried again; after that the lease ends by itself.
const RELEASE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

#[derive(Debug)]
pub(super) struct Member {
    pub(super) backend: Arc<dyn Backend>,
    down: Mutex<Option<Down>>,
}

#[derive(Debug)]
struct Down {
    fault: Fault,
    next_probe: Instant,
}

/// What to do with a node for one command.
#[derive(Debug)]
pub(super) enum Admission {
    /// Ask it, and wait for its answer.
    Ask,
    /// It was down: ask it, but do not wait.
    Probe(Fault),
    /// It is down, and was asked a moment ago.
    Skip(Fault),
}

impl Member {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self { backend, down: Mutex::new(None) })
    }

    pub(super) fn admit(&self) -> Admission {
        let mut down = self.down();
        let Some(down) = &mut *down else { return Admission::Ask };
        let now = Instant::now();
        if now < down.next_probe {
            return Admission::Skip(down.fault.clone());
        }
        down.next_probe = now + PROBE_EVERY;
        Admission::Probe(down.fault.clone())
    }

    /// Learns from an answer. A node that answers with an error is not down: it costs no wait.
    pub(super) fn note<T>(&self, answer: &Result<T, Fault>) {
        let is_down = |fault: &Fault| {
            fault.nodes.iter().any(|node| {
                matches!(node.kind(), NodeErrorKind::Unreachable | NodeErrorKind::NoReply)
            })
        };
        let next_probe = Instant::now() + PROBE_EVERY;
        *self.down() = match answer {
            Err(fault) if is_down(fault) => Some(Down { fault: fault.clone(), next_probe }),
            _ => None,
        };
    }

    /// Releases here a little longer than the caller waits for it.
    pub(super) fn release_later(self: &Arc<Self>, claim: Claim, within: Duration) {
        let member = Arc::clone(self);
        tokio::spawn(async move {
            for pause in RELEASE_AGAIN {
                if pause >= claim.expire {
                    return;
                }
                tokio::time::sleep(pause).await;
                if member.backend.release(&claim, within).await.is_ok() {
                    return;
                }
            }
        });
    }

    fn down(&self) -> MutexGuard<'_, Option<Down>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
