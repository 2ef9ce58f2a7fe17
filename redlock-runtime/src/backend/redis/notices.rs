//! Hears on one channel who of this process has been handed a lock, or waits for one that is free.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use super::subscription::{Listener, News};
use crate::backend::{Awaited, Call, Claim, FencingTokens, Ticket, Told};
use crate::fencing::FencingToken;
use crate::owner::Owner;

/// The channel of those that cannot be told.
pub(super) const NOBODY: &str = "-";
/// Owners that gave up, at most: a call for one of them is rare, and late.
const MOST_FORMER: usize = 1024;

/// The channel of a node's waiters, and who listens for what.
#[derive(Debug)]
pub(super) struct Notices {
    pub(super) channel: String,
    phase: watch::Sender<Phase>,
    doubts: Arc<Notify>,
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody has asked for it yet.
    Unused,
    /// Somebody has.
    Wanted,
    /// Calls are heard.
    Heard,
    /// They are not, for the time being.
    Silent,
}

#[derive(Default)]
struct Listeners {
    tickets: HashMap<Owner, mpsc::UnboundedSender<Call>>,
    /// They only want to know when a lock is let go of.
    awaiting: HashMap<Owner, Told>,
    /// They gave up, and never come back: what is handed to them nobody wants.
    former: VecDeque<Claim>,
}

impl Notices {
    /// `channel`: of publish and subscribe, or a mailbox.
    pub(super) fn new(channel: String) -> Self {
        Self {
            channel,
            phase: watch::Sender::new(Phase::Unused),
            doubts: Arc::default(),
            listeners: Mutex::default(),
        }
    }

    /// What listens on the channel, and where its news arrive.
    pub(super) fn listener(&self) -> (Listener, mpsc::UnboundedReceiver<News>) {
        let (news, heard) = mpsc::unbounded_channel();
        let (channel, doubts) = (self.channel.clone(), Arc::clone(&self.doubts));
        (Listener { channel, news, doubts }, heard)
    }

    /// A call seems to have been missed: does the subscription listen where it is called?
    pub(super) fn doubt(&self) {
        self.doubts.notify_one();
    }

    /// The channel to be told on, once somebody listens there; [`NOBODY`] if that takes longer
    /// than `within`. Cancel safe.
    pub(super) async fn channel_within(&self, within: Duration) -> &str {
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
        let _ = tokio::time::timeout(within, settled).await;
        self.channel_now()
    }

    pub(super) fn channel_now(&self) -> &str {
        if self.is_heard() { &self.channel } else { NOBODY }
    }

    pub(super) fn is_heard(&self) -> bool {
        *self.phase.borrow() == Phase::Heard
    }

    /// Returns when somebody waits.
    pub(super) async fn wanted(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase != Phase::Unused).await;
    }

    /// Whoever is in line looks at once when calls are not heard any more, and from then on as
    /// often as somebody who is not told: until calls are heard again, none will come.
    pub(super) fn enter(&self, phase: Phase) {
        let before = self.phase.send_replace(phase);
        if before == Phase::Heard && phase != Phase::Heard {
            self.disturb();
        }
    }

    pub(super) fn ticket(self: &Arc<Self>, owner: &Owner) -> Ticket {
        let (sender, calls) = mpsc::unbounded_channel();
        self.listeners().tickets.insert(owner.clone(), sender);
        Ticket::new(calls, Registration { notices: Arc::clone(self), owner: owner.clone() })
    }

    /// `told` is called when a lock was let go of that `owner` waits for.
    pub(super) fn expect(self: &Arc<Self>, owner: &Owner, told: Told) -> Awaited {
        self.listeners().awaiting.insert(owner.clone(), told);
        Awaited::new(Registration { notices: Arc::clone(self), owner: owner.clone() })
    }

    /// The owner is never used again, though it may still be handed a lock.
    pub(super) fn gave_up(&self, claim: &Claim) {
        let mut listeners = self.listeners();
        if listeners.former.len() == MOST_FORMER {
            listeners.former.pop_front();
        }
        listeners.former.push_back(claim.clone());
    }

    /// Calls may have been missed.
    pub(super) fn disturb(&self) {
        let senders: Vec<_> = self.listeners().tickets.values().cloned().collect();
        for sender in senders {
            let _ = sender.send(Call::Disturbed);
        }
    }

    /// Passes a message on. Answers with the lock that it hands to somebody who gave up.
    pub(super) fn tell(&self, message: &[u8]) -> Option<Claim> {
        if let Some(owner) = parse_free(message) {
            let told = self.listeners().awaiting.get(owner).cloned();
            // Outside of the mutex, as below.
            if let Some(told) = told {
                told();
            }
            return None;
        }
        let (owner, call) = parse(message)?;
        let sender = {
            let mut listeners = self.listeners();
            let former = &mut listeners.former;
            if let Some(at) = former.iter().position(|claim| claim.owner.as_str() == owner) {
                return former.remove(at);
            }
            listeners.tickets.get(owner).cloned()
        };
        // Outside of the mutex: it wakes a task. Without a ticket, somebody who looked has heard
        // of it already.
        let _ = sender?.send(call);
        None
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").field("tickets", &self.tickets.len()).finish_non_exhaustive()
    }
}

/// Takes the listener of an owner away.
#[derive(Debug)]
struct Registration {
    notices: Arc<Notices>,
    owner: Owner,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut listeners = self.notices.listeners();
        let gone = (listeners.tickets.remove(&self.owner), listeners.awaiting.remove(&self.owner));
        drop(listeners);
        // Outside of the mutex: what they refer to may end with them.
        drop(gone);
    }
}

/// `<first> <last> <lease in ms> <length of the owner> <owner><lock key>`
fn parse(message: &[u8]) -> Option<(&str, Call)> {
    let mut words = message.splitn(5, |byte| *byte == b' ');
    let mut number = || -> Option<u64> { str::from_utf8(words.next()?).ok()?.parse().ok() };
    let (first, last, lease, length) = (number()?, number()?, number()?, number()?);
    let owner = words.next()?.get(..usize::try_from(length).ok()?)?;
    let fencing_tokens =
        FencingTokens { first: FencingToken::new(first)?, last: FencingToken::new(last)? };
    let lease = Duration::from_millis(lease);
    Some((str::from_utf8(owner).ok()?, Call::HandedOver { fencing_tokens, lease }))
}

/// `free <length of the owner> <owner><lock key>`
fn parse_free(message: &[u8]) -> Option<&str> {
    let mut words = message.strip_prefix(b"free ")?.splitn(2, |byte| *byte == b' ');
    let length: usize = str::from_utf8(words.next()?).ok()?.parse().ok()?;
    str::from_utf8(words.next()?.get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::subscription;
    use super::*;
    use crate::key::LockKey;

    fn claim(client: &str) -> Claim {
        let key = LockKey::new("lock:", "stock 42").unwrap();
        Claim { key, owner: Owner::fresh(client), expire: Duration::from_secs(10) }
    }

    fn message(claim: &Claim) -> Vec<u8> {
        let owner = claim.owner.as_str();
        format!("41 48 500 {} {owner}{}", owner.len(), claim.key.redis_key()).into_bytes()
    }

    fn call() -> Call {
        let fencing_token = |number| FencingToken::new(number).unwrap();
        let fencing_tokens = FencingTokens { first: fencing_token(41), last: fencing_token(48) };
        Call::HandedOver { fencing_tokens, lease: Duration::from_millis(500) }
    }

    #[tokio::test]
    async fn a_call_reaches_its_ticket_whatever_the_client_is_called() {
        let notices = Arc::new(Notices::new(subscription::channel()));
        for client in ["web-3", "a web 4 ", "\u{1F512} 12 "] {
            let (claim, other) = (claim(client), claim(client));
            let mut ticket = notices.ticket(&claim.owner);
            let _other = notices.ticket(&other.owner);
            assert!(notices.tell(&message(&claim)).is_none());
            assert_eq!(ticket.called().await, call());
        }
    }

    #[tokio::test]
    async fn a_lock_for_an_owner_that_gave_up_is_let_go_of_once() {
        let notices = Arc::new(Notices::new(subscription::channel()));
        let claim = claim("web-3");
        notices.gave_up(&claim);
        assert_eq!(notices.tell(&message(&claim)).unwrap().owner, claim.owner);
        assert!(notices.tell(&message(&claim)).is_none());
    }

    /// It may hold the lock: a look can bring the news before the call does.
    #[test]
    fn a_lock_for_an_owner_without_a_ticket_is_left_alone() {
        let notices = Arc::new(Notices::new(subscription::channel()));
        let claim = claim("web-3");
        drop(notices.ticket(&claim.owner));
        assert!(notices.listeners().tickets.is_empty());
        assert!(notices.tell(&message(&claim)).is_none());
    }

    #[test]
    fn the_owners_that_gave_up_do_not_pile_up() {
        let notices = Notices::new(subscription::channel());
        (0..2 * MOST_FORMER).for_each(|_| notices.gave_up(&claim("web-3")));
        assert_eq!(notices.listeners().former.len(), MOST_FORMER);
    }

    #[test]
    fn who_waits_for_a_release_is_told_until_it_wants_no_more() {
        let notices = Arc::new(Notices::new(subscription::channel()));
        let claim = claim("a web 4 ");
        let owner = claim.owner.as_str();
        let message = format!("free {} {owner}{}", owner.len(), claim.key.redis_key());
        let told = Arc::new(AtomicUsize::new(0));
        let awaited = {
            let told = Arc::clone(&told);
            let count = move || {
                told.fetch_add(1, Ordering::Relaxed);
            };
            notices.expect(&claim.owner, Arc::new(count))
        };
        for _ in 0..2 {
            assert!(notices.tell(message.as_bytes()).is_none());
        }
        drop(awaited);
        assert!(notices.tell(message.as_bytes()).is_none());
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn everybody_is_disturbed() {
        let notices = Arc::new(Notices::new(subscription::channel()));
        let mut tickets = [claim("a"), claim("b")].map(|claim| notices.ticket(&claim.owner));
        notices.disturb();
        for ticket in &mut tickets {
            assert_eq!(ticket.called().await, Call::Disturbed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_looks_at_once_when_calls_are_not_heard_any_more() {
        for deaf in [Phase::Wanted, Phase::Silent] {
            let notices = Arc::new(Notices::new(subscription::channel()));
            notices.enter(Phase::Wanted);
            notices.enter(Phase::Heard);
            let mut ticket = notices.ticket(&claim("a").owner);
            notices.enter(deaf);
            assert!(!notices.is_heard());
            let mut called =
                async || tokio::time::timeout(Duration::from_secs(1), ticket.called()).await.ok();
            assert_eq!(called().await, Some(Call::Disturbed), "{deaf:?}");
            // Once: what was not heard before is no news.
            notices.enter(Phase::Silent);
            assert_eq!(called().await, None, "{deaf:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_heard_in_time_is_not_told() {
        let notices = Notices::new(subscription::channel());
        let within = Duration::from_millis(100);
        assert_eq!(notices.channel_within(within).await, NOBODY);
        notices.enter(Phase::Silent);
        let start = tokio::time::Instant::now();
        assert_eq!(notices.channel_within(within).await, NOBODY);
        assert!(start.elapsed().is_zero(), "it is known already");
        notices.enter(Phase::Heard);
        assert_eq!(notices.channel_within(within).await, notices.channel);
    }

    #[test]
    fn anything_else_is_not_a_message() {
        let notices = Arc::new(Notices::new(subscription::channel()));
        for odd in ["free ", "free x", "free 9 short", "free -1 x"] {
            assert!(parse_free(odd.as_bytes()).is_none(), "{odd}");
        }
        for odd in
            ["", "free 1 x", "41 48 500", "41 48 500 9 short", "a 48 500 1 xy", "41 48 500 -1 xy"]
        {
            assert!(parse(odd.as_bytes()).is_none(), "{odd}");
            assert!(notices.tell(odd.as_bytes()).is_none());
        }
        assert!(parse(b"41 48 500 1 \xff lock:k").is_none());
    }
}
