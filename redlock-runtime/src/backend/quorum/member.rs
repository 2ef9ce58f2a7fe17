//! One node of a quorum, and whether it is worth waiting for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Claim, Fault, Recall, Voter};
use crate::clock::Moment;
use crate::error::NodeErrorKind;

/// How often a node that is down is asked whether it is back.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// When a release that failed is tried again; after that the lease ends by itself.
const RELEASE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

#[derive(Debug)]
pub(super) struct Member {
    /// Its place among the nodes.
    pub(super) number: usize,
    pub(super) backend: Arc<dyn Voter>,
    down: Mutex<Option<Down>>,
    memory: Mutex<Memory>,
}

/// What the restart guard keeps of a node.
#[derive(Debug, Default)]
struct Memory {
    /// A gap that only the comparison with other nodes shows.
    suspicion: Option<Recall>,
    /// The gap that was reported last.
    reported: Option<Moment>,
    /// The run id of the server that was given the roll.
    enrolled: Option<Arc<str>>,
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
    pub(super) fn new(number: usize, backend: Arc<dyn Voter>) -> Arc<Self> {
        Arc::new(Self { number, backend, down: Mutex::new(None), memory: Mutex::default() })
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

    /// Since when it remembers what it granted, as far as it or anybody else can tell.
    pub(super) fn recall(&self) -> Option<Recall> {
        let own = self.backend.recall();
        let suspicion = self.memory().suspicion.clone();
        own.into_iter().chain(suspicion).max_by_key(|recall| recall.since)
    }

    pub(super) fn suspect(&self, recall: Recall) {
        self.memory().suspicion = Some(recall);
    }

    /// Was this gap not reported yet?
    pub(super) fn is_news(&self, recall: &Recall) -> bool {
        self.memory().reported.replace(recall.since) != Some(recall.since)
    }

    /// Does this server have the roll? From now on it has.
    pub(super) fn has_roll(&self, recall: Option<&Recall>) -> bool {
        let Some(recall) = recall else { return true };
        let enrolled = self.memory().enrolled.replace(Arc::clone(&recall.run_id));
        enrolled.is_some_and(|known| known == recall.run_id)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn down(&self) -> MutexGuard<'_, Option<Down>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
