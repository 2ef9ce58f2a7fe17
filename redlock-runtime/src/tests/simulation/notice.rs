//! How processes hear of what the server publishes: the subscriptions of owners, and the connection
//! of a process, which may be down.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use tokio::sync::mpsc;

use super::plan::Tick;
use crate::backend::{QueueSignal, Subscription};
use crate::owner::Owner;

/// When a process does not hear the server, though it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) from: Tick,
    /// From here on the server knows.
    pub(crate) noticed: Tick,
    pub(crate) until: Tick,
}

impl Cut {
    pub(crate) fn new(random: &mut Rng, latest: Tick) -> Self {
        let from = random.u64(..latest);
        let noticed = from + random.u64(..100);
        Self { from, noticed, until: noticed + random.u64(1..300) }
    }
}

/// The subscriptions of all processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tickets {
    known: Arc<Mutex<Vec<Known>>>,
}

#[derive(Debug)]
struct Known {
    process: usize,
    owner: Owner,
    calls: mpsc::UnboundedSender<QueueSignal>,
}

impl Tickets {
    pub(crate) fn issue(&self, process: usize, owner: &Owner) -> Subscription {
        let (calls, heard) = mpsc::unbounded_channel();
        let mut known = self.known.lock().unwrap();
        known.retain(|known| !known.calls.is_closed());
        known.push(Known { process, owner: owner.clone(), calls });
        Subscription::new(heard, ())
    }

    /// Does somebody still wait for signals of this owner?
    pub(crate) fn has(&self, owner: &str) -> bool {
        let known = self.known.lock().unwrap();
        known.iter().any(|known| known.owner.as_str() == owner && !known.calls.is_closed())
    }

    pub(crate) fn call(&self, owner: &str, call: QueueSignal) {
        self.tell(|known| known.owner.as_str() == owner, call);
    }

    /// To everybody in a process, whatever their owners.
    pub(crate) fn call_all(&self, process: usize, call: QueueSignal) {
        self.tell(|known| known.process == process, call);
    }

    /// The subscription of a process was made anew.
    pub(crate) fn disturb(&self, process: usize) {
        self.call_all(process, QueueSignal::Disturbed);
    }

    fn tell(&self, whom: impl Fn(&Known) -> bool, call: QueueSignal) {
        for known in self.known.lock().unwrap().iter().filter(|known| whom(known)) {
            // Nobody listens any more: the message is ignored.
            let _ = known.calls.send(call);
        }
    }
}
