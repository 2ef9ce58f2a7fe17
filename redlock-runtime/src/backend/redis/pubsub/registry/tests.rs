use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::backend::FencingTokens;
use crate::backend::redis::pubsub::subscription;
use crate::fencing::FencingToken;
use crate::kind::Kind;

fn claim(client: &str) -> Claim {
    let key = LockKey::new("lock:", "stock 42").unwrap();
    Claim {
        key,
        owner: Owner::of_nobody(client),
        expire: Duration::from_secs(10),
        kind: Kind::Exclusive,
    }
}

fn message(claim: &Claim) -> Vec<u8> {
    let owner = claim.owner.as_str();
    format!("41 48 500 {} {owner}{}", owner.len(), claim.key.redis_key()).into_bytes()
}

fn call() -> QueueSignal {
    let fencing_token = |number| FencingToken::new(number).unwrap();
    let fencing_tokens = FencingTokens { first: fencing_token(41), last: fencing_token(48) };
    QueueSignal::HandedOver { fencing_tokens, lease: Duration::from_millis(500) }
}

#[tokio::test]
async fn a_call_reaches_its_ticket_whatever_the_client_is_called() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    for client in ["web-3", "a web 4 ", "\u{1F512} 12 "] {
        let (claim, other) = (claim(client), claim(client));
        let mut subscription = registry.subscribe(&claim);
        let _other = registry.subscribe(&other);
        assert!(registry.dispatch(&message(&claim)).is_none());
        assert_eq!(subscription.signal().await, call());
    }
}

#[tokio::test]
async fn a_lock_for_an_owner_that_gave_up_is_let_go_of_once() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    let claim = claim("web-3");
    registry.gave_up(&claim);
    assert_eq!(registry.dispatch(&message(&claim)).unwrap().owner, claim.owner);
    assert!(registry.dispatch(&message(&claim)).is_none());
}

/// Its client could not reach the server when it gave up.
#[test]
fn an_owner_that_gave_up_leaves_the_queue_whenever_it_is_asked() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    let [waits, gave_up] = [claim("web-3"), claim("web-3")];
    let _subscription = registry.subscribe(&waits);
    registry.gave_up(&gave_up);
    let ping = |claim: &Claim| {
        let owner = claim.owner.as_str();
        format!("ping {} {owner}{}", owner.len(), claim.key.redis_key()).into_bytes()
    };
    for _ in 0..2 {
        assert_eq!(registry.dispatch(&ping(&gave_up)).unwrap().owner, gave_up.owner);
        assert!(registry.dispatch(&ping(&waits)).is_none());
    }
}

/// The waiter may hold the lock: a check of its entry can be answered before the signal comes.
#[test]
fn a_lock_for_an_owner_without_a_ticket_is_left_alone() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    let claim = claim("web-3");
    drop(registry.subscribe(&claim));
    assert!(registry.listeners.lock().subscriptions.is_empty());
    assert!(registry.dispatch(&message(&claim)).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_message_about_another_lock_is_not_believed() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    let [waits, gave_up] = [claim("web-3"), claim("web-3")];
    let mut subscription = registry.subscribe(&waits);
    registry.gave_up(&gave_up);
    for claim in [&waits, &gave_up] {
        let other = Claim { key: LockKey::new("lock:", "stock 4").unwrap(), ..claim.clone() };
        assert!(registry.dispatch(&message(&other)).is_none());
    }
    let called = tokio::time::timeout(Duration::from_secs(1), subscription.signal()).await;
    assert!(called.is_err(), "{called:?}");
    assert!(registry.dispatch(&message(&gave_up)).is_some(), "it is still known");
}

#[test]
fn the_owners_that_gave_up_do_not_pile_up() {
    let registry = Registry::new(subscription::channel());
    (0..2 * MOST_GAVE_UP).for_each(|_| registry.gave_up(&claim("web-3")));
    assert_eq!(registry.listeners.lock().former.gave_up.len(), MOST_GAVE_UP);
    let last = claim("web-3");
    registry.gave_up(&last);
    (0..2 * MOST_SERVED).for_each(|_| registry.note_served(&claim("web-3")));
    assert_eq!(registry.listeners.lock().former.served.len(), MOST_SERVED);
    assert!(registry.dispatch(&message(&last)).is_some(), "those who were served are apart");
}

/// Also those that are handed a lock, and are taken out, leave nothing behind.
#[test]
fn former_owners_that_come_and_go_do_not_pile_up() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    for _ in 0..2 * MOST_SERVED {
        let claim = claim("web-3");
        registry.note_served(&claim);
        assert!(registry.dispatch(&message(&claim)).is_some());
    }
    assert!(registry.listeners.lock().former.served.len() <= MOST_SERVED);
}

#[test]
fn who_waits_for_a_release_is_told_until_it_wants_no_more() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    let claim = claim("a web 4 ");
    let owner = claim.owner.as_str();
    let message = format!("free {} {owner}{}", owner.len(), claim.key.redis_key());
    let told = Arc::new(AtomicUsize::new(0));
    let awaited = {
        let told = Arc::clone(&told);
        let count = move || {
            told.fetch_add(1, Ordering::Relaxed);
        };
        registry.expect(&claim, Arc::new(count))
    };
    for _ in 0..2 {
        assert!(registry.dispatch(message.as_bytes()).is_none());
        assert!(registry.dispatch(format!("{message}3").as_bytes()).is_none(), "another lock");
    }
    drop(awaited);
    assert!(registry.dispatch(message.as_bytes()).is_none());
    assert_eq!(told.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn everybody_is_disturbed() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    let mut subscriptions = [claim("a"), claim("b")].map(|claim| registry.subscribe(&claim));
    registry.disturb();
    for subscription in &mut subscriptions {
        assert_eq!(subscription.signal().await, QueueSignal::Disturbed);
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_looks_at_once_when_calls_are_not_heard_any_more() {
    for deaf in [Phase::Wanted, Phase::Silent] {
        let registry = Arc::new(Registry::new(subscription::channel()));
        registry.enter(Phase::Wanted);
        registry.enter(Phase::Heard);
        let mut subscription = registry.subscribe(&claim("a"));
        registry.enter(deaf);
        assert!(!registry.is_heard());
        let mut called =
            async || tokio::time::timeout(Duration::from_secs(1), subscription.signal()).await.ok();
        assert_eq!(called().await, Some(QueueSignal::Disturbed), "{deaf:?}");
        // Only once: a channel that was silent before changes nothing.
        registry.enter(Phase::Silent);
        assert_eq!(called().await, None, "{deaf:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_heard_in_time_is_not_told() {
    let registry = Registry::new(subscription::channel());
    let within = Duration::from_millis(100);
    assert_eq!(registry.channel_within(within).await, NOBODY);
    registry.enter(Phase::Silent);
    let start = tokio::time::Instant::now();
    assert_eq!(registry.channel_within(within).await, NOBODY);
    assert!(start.elapsed().is_zero(), "it is known already");
    registry.enter(Phase::Heard);
    assert_eq!(registry.channel_within(within).await, registry.channel);
}

#[test]
fn anything_else_is_not_a_message() {
    let registry = Arc::new(Registry::new(subscription::channel()));
    for odd in
        ["", "free 1 x", "41 48 500", "41 48 500 9 short", "a 48 500 1 xy", "41 48 500 -1 xy"]
    {
        assert!(registry.dispatch(odd.as_bytes()).is_none());
    }
}

#[test]
fn a_connection_is_still_to_be_made_before_it_is_heard_and_not_where_it_cannot_be() {
    let registry = Registry::new(subscription::channel());
    assert!(registry.is_unconnected());
    for (phase, is_unconnected) in
        [(Phase::Wanted, true), (Phase::Heard, false), (Phase::Silent, false)]
    {
        registry.enter(phase);
        assert_eq!(registry.is_unconnected(), is_unconnected, "{phase:?}");
    }
}
