//! The registry of a node's channel: passes each received signal to the waiter that it is for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use super::last_ones::LastOnes;
use super::message::{Signal, SignalledLock};
use super::subscription::{Listener, News};
use crate::backend::{Claim, HintRegistration, OnRelease, QueueSignal, Subscription};
use crate::key::LockKey;
use crate::mutex::Mutex;
use crate::owner::Owner;

/// The channel of waiters that cannot be signalled.
pub(crate) const NOBODY: &str = "-";
/// The divisor for the part of a call's time that the connection for signals may take.
const CONNECTING_PART: u32 = 2;
/// How long a call waits for that connection at most: a connection that is made takes some round
/// trips. Whoever waits longer, because nobody answers or the server is far, waits in the queue
/// meanwhile, where it can take a lock that becomes free.
const CONNECTING: Duration = Duration::from_millis(100);
/// The same for a call that holds the lock meanwhile. It does not go without: hand-overs would pass
/// over its next entry, up to sixteen times, because its client needs signals for the first time.
const CONNECTING_HELD: Duration = Duration::from_millis(20);
/// How many owners that gave up are remembered: a signal for one of them is rare, and late.
const MOST_GAVE_UP: usize = 1024;
/// How many owners are remembered that were served and have let go, of some hundred bytes each. A
/// queue that came back older than it was has entries of the last minute only.
const MOST_SERVED: usize = 4096;
/// The channel of a node's waiters, and which waiter listens for what.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) channel: String,
    phase: watch::Sender<Phase>,
    doubts: Arc<Notify>,
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No waiter has needed it yet.
    Unused,
    /// A waiter needs it.
    Wanted,
    /// Signals are received.
    Heard,
    /// Signals are not received at present.
    Silent,
}

#[derive(Default)]
struct Listeners {
    subscriptions: HashMap<Owner, (LockKey, mpsc::UnboundedSender<QueueSignal>)>,
    /// The owners of release hints: they only have to learn of a release.
    awaiting: HashMap<Owner, (LockKey, OnRelease)>,
    /// Owners that are never used again: a lock that is handed to them is released.
    former: Former,
}

/// Those who gave up may still be in the queue. Those who were served are in it only where the
/// server has older data than it had: a snapshot that was restored, or a replica that lagged. They
/// are many more, and must not keep the others from being remembered.
struct Former {
    gave_up: LastOnes<Owner, Claim>,
    served: LastOnes<Owner, Claim>,
}

impl Default for Former {
    fn default() -> Self {
        let gave_up = LastOnes::new(MOST_GAVE_UP);
        Self { gave_up, served: LastOnes::new(MOST_SERVED) }
    }
}

impl Former {
    fn get(&self, lock: &SignalledLock<'_>) -> Option<&Claim> {
        let claim = self.gave_up.get(lock.owner).or_else(|| self.served.get(lock.owner));
        claim.filter(|claim| lock.is_of(claim))
    }

    fn take(&mut self, lock: &SignalledLock<'_>) -> Option<Claim> {
        self.get(lock)?;
        self.gave_up.take(lock.owner).or_else(|| self.served.take(lock.owner))
    }
}

impl Registry {
    /// `channel`: of publish and subscribe, or a mailbox.
    pub(crate) fn new(channel: String) -> Self {
        Self {
            channel,
            phase: watch::Sender::new(Phase::Unused),
            doubts: Arc::default(),
            listeners: Mutex::default(),
        }
    }

    /// The listener on the channel, and the receiver of its messages.
    pub(crate) fn listener(&self) -> (Listener, mpsc::UnboundedReceiver<News>) {
        let (news, heard) = mpsc::unbounded_channel();
        let (channel, doubts) = (self.channel.clone(), Arc::clone(&self.doubts));
        (Listener { channel, news, doubts }, heard)
    }

    /// A signal seems to have been missed: checks that the subscription listens at the right
    /// servers.
    pub(crate) fn doubt(&self) {
        self.doubts.notify_one();
    }

    /// Returns when a signal seems to have been missed. Cancel safe.
    pub(crate) async fn doubted(&self) {
        self.doubts.notified().await;
    }

    /// The channel for signals, once it is listened to, for a call that may take `within`;
    /// [`NOBODY`] if half of that is over, or [`CONNECTING`]. Cancel safe.
    pub(crate) async fn channel_within(&self, within: Duration) -> &str {
        self.channel_in(CONNECTING.min(within / CONNECTING_PART)).await
    }

    /// The same for a call that holds the lock. Cancel safe.
    pub(crate) async fn channel_while_held(&self) -> &str {
        self.channel_in(CONNECTING_HELD).await
    }

    async fn channel_in(&self, limit: Duration) -> &str {
        if self.is_heard() {
            return &self.channel;
        }
        self.phase.send_if_modified(|phase| {
            let is_first = *phase == Phase::Unused;
            if is_first {
                *phase = Phase::Wanted;
            }
            is_first
        });
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| matches!(phase, Phase::Heard | Phase::Silent));
        let _ = tokio::time::timeout(limit, settled).await;
        self.channel_now()
    }

    pub(crate) fn channel_now(&self) -> &str {
        if self.is_heard() { &self.channel } else { NOBODY }
    }

    pub(crate) fn is_heard(&self) -> bool {
        *self.phase.borrow() == Phase::Heard
    }

    /// Is the connection not made yet? This includes the time before any waiter has needed it.
    pub(crate) fn is_unconnected(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Unused | Phase::Wanted)
    }

    /// Returns when a waiter needs signals.
    pub(crate) async fn wanted(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase != Phase::Unused).await;
    }

    /// Changes the phase. When signals are no longer received, queued waiters check their
    /// entries at once, and from then on as often as waiters that are not signalled.
    pub(crate) fn enter(&self, phase: Phase) {
        let before = self.phase.send_replace(phase);
        if before == Phase::Heard && phase != Phase::Heard {
            self.disturb();
        }
    }

    /// Nothing receives signals any more, though somebody may need them.
    pub(crate) fn unheard(&self) {
        if *self.phase.borrow() != Phase::Unused {
            self.enter(Phase::Silent);
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, Claim { key, owner, .. }: &Claim) -> Subscription {
        let (sender, signals) = mpsc::unbounded_channel();
        self.listeners.lock().subscriptions.insert(owner.clone(), (key.clone(), sender));
        Subscription::new(
            signals,
            Registration { registry: Arc::clone(self), owner: owner.clone() },
        )
    }

    /// `on_release` is called when the lock of this claim was released.
    pub(crate) fn expect(
        self: &Arc<Self>,
        Claim { key, owner, .. }: &Claim,
        on_release: OnRelease,
    ) -> HintRegistration {
        self.listeners.lock().awaiting.insert(owner.clone(), (key.clone(), on_release));
        HintRegistration::new(Registration { registry: Arc::clone(self), owner: owner.clone() })
    }

    /// The owner is never used again, though it may still be handed a lock. A release that fails is
    /// repeated, and tells this again.
    pub(crate) fn gave_up(&self, claim: &Claim) {
        self.listeners.lock().former.gave_up.add(&claim.owner, claim.clone());
    }

    /// The owner once stood in the queue, and lets go of the lock: it is never used again, though a
    /// queue that comes back older than it was still has it. Such an entry would cost the others
    /// the claim window otherwise, as this client knows nothing of it.
    pub(crate) fn note_served(&self, claim: &Claim) {
        self.listeners.lock().former.served.add(&claim.owner, claim.clone());
    }

    /// Signals may have been missed.
    pub(crate) fn disturb(&self) {
        let listeners: Vec<_> = self.listeners.lock().subscriptions.values().cloned().collect();
        for (_, sender) in listeners {
            let _ = sender.send(QueueSignal::Disturbed);
        }
    }

    /// Passes a signal on. Returns what a former owner still has: a lock that was handed to
    /// it, or its entry in the queue. A signal about another lock than the one that its owner waits
    /// for is ignored: a lock that it may have handed over ends with the claim window.
    pub(crate) fn dispatch(&self, signal: &[u8]) -> Option<Claim> {
        match Signal::parse(signal)? {
            Signal::HandedOver { lock, fencing_tokens, lease } => {
                self.pass_on(&lock, QueueSignal::HandedOver { fencing_tokens, lease })
            }
            Signal::Look(lock) => self.pass_on(&lock, QueueSignal::Disturbed),
            Signal::Free(lock) => {
                self.tell_release(&lock);
                None
            }
            Signal::Ping(lock) => self.listeners.lock().former.get(&lock).cloned(),
        }
    }

    fn pass_on(&self, lock: &SignalledLock<'_>, signal: QueueSignal) -> Option<Claim> {
        let sender = {
            let mut listeners = self.listeners.lock();
            if listeners.former.get(lock).is_some() {
                let is_handed_over = matches!(signal, QueueSignal::HandedOver { .. });
                return is_handed_over.then(|| listeners.former.take(lock)).flatten();
            }
            let subscription =
                listeners.subscriptions.get(lock.owner).filter(|(key, _)| lock.is(key));
            subscription.map(|(_, sender)| sender.clone())
        };
        // Outside of the mutex: it wakes a task. Without a subscription, the waiter has checked its
        // entry and knows the outcome already.
        let _ = sender?.send(signal);
        None
    }

    fn tell_release(&self, lock: &SignalledLock<'_>) {
        let awaiting = self.listeners.lock().awaiting.get(lock.owner).cloned();
        // Outside of the mutex, as above.
        if let Some((key, on_release)) = awaiting
            && lock.is(&key)
        {
            on_release();
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners")
            .field("subscriptions", &self.subscriptions.len())
            .finish_non_exhaustive()
    }
}

/// Removes the listener of an owner when it is dropped.
#[derive(Debug)]
struct Registration {
    registry: Arc<Registry>,
    owner: Owner,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut listeners = self.registry.listeners.lock();
        let gone =
            (listeners.subscriptions.remove(&self.owner), listeners.awaiting.remove(&self.owner));
        drop(listeners);
        // Outside of the mutex: what the listeners refer to may end with them.
        drop(gone);
    }
}

#[cfg(test)]
mod tests;
