//! Several keys beside readers and permits, and with the options and calls that one key has.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::fake::{SECOND, fake};
use super::server::Server;
use super::several_keys::{EXPIRE, another, taken};
use crate::backend::MemoryStore;
use crate::client::{LockRequest, Redlock};
use crate::error::{LockError, NodeErrorKind};
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::LostReason;
use crate::testing::{Command, FaultyStore, assert_held, assert_not_held};

const KEYS: [&str; 3] = ["a", "b", "c"];

async fn on_memory() -> (Redlock, Redlock) {
    let store = MemoryStore::new();
    let client = || Redlock::builder().memory_store(store.clone()).build();
    (client().await.unwrap(), client().await.unwrap())
}

fn config(error: &LockError, part: &str) {
    let LockError::Config { message, .. } = error else { panic!("{error}") };
    assert!(message.contains(part), "{message}");
}

#[tokio::test(start_paused = true)]
async fn what_several_keys_cannot_be_is_refused_before_anything_is_sent() {
    let (redlock, fake) = fake();
    // Also where they turn out to be one key.
    for keys in [&KEYS[..], &["a", "a"]] {
        let request = || redlock.lock_all(keys);
        let refused = |request: LockRequest| async { request.acquire().await.unwrap_err() };
        config(&refused(request().read()).await, "one by one");
        config(&refused(request().min_hold(SECOND)).await, "leave it out");
        let led = request().read().lead(|_| async {});
        config(&led.await.unwrap_err(), "one by one");
        assert!(matches!(refused(request().permits(2)).await, LockError::Config { .. }));
    }
    assert_eq!(fake.take_log(), [""; 0]);
    let (redlock, _) = on_memory().await;
    config(&redlock.lock_all(KEYS).permits(2).acquire().await.unwrap_err(), "one by one");
    drop(redlock.lock_all(KEYS).min_hold(Duration::ZERO).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn several_keys_do_not_become_read_locks() {
    let (redlock, other) = on_memory().await;
    // Also where they turn out to be one key.
    for keys in [&KEYS[..], &["a"], &["a", "a"]] {
        let guard = redlock.lock_all(keys).acquire().await.unwrap();
        config(&guard.downgrade().await.unwrap_err(), "and was released; take");
        assert!(redlock.held().is_empty());
    }
    assert!(other.lock_all(KEYS).try_acquire().await.unwrap().is_some(), "all were released");
}

#[tokio::test(start_paused = true)]
async fn readers_and_permits_of_one_key_are_waited_for() {
    type Of = fn(LockRequest) -> LockRequest;
    let kinds: [(Of, &str); 2] = [(LockRequest::read, "reader"), (|one| one.permits(2), "permit")];
    for (of, shown) in kinds {
        let (redlock, other) = on_memory().await;
        let beside = of(other.lock("b")).acquire().await.unwrap();
        let error = redlock.lock_all(KEYS).wait(Wait::Never).acquire().await.unwrap_err();
        let LockError::Timeout { key, holder, .. } = &error else { panic!("{error}") };
        assert_eq!((&**key, holder.clone()), ("b", Some(format!("1 {shown}"))));
        let mut waiting = pin!(redlock.lock_all(KEYS).expire(EXPIRE).wait(Wait::Forever).acquire());
        assert!(tokio::time::timeout(SECOND, &mut waiting).await.is_err());
        // It came later, and waits behind who waits already.
        assert!(of(other.lock("b")).try_acquire().await.unwrap().is_none());
        beside.release().await.unwrap();
        let guard = waiting.await.unwrap();
        for key in KEYS {
            assert!(of(other.lock(key)).try_acquire().await.unwrap().is_none(), "{key}");
        }
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_inside_of_several_keys_re_enters_and_the_other_way_round_it_cannot() {
    let (redlock, _) = on_memory().await;
    let read = redlock.lock("b").read().run(async { Lease::current().unwrap().fencing_token() });
    let inside = redlock.lock_all(KEYS).run(async {
        let outer = Lease::current().unwrap().fencing_token();
        (outer, read.await.unwrap())
    });
    let (outer, inner) = inside.await.unwrap();
    assert_eq!(outer, inner);
    for keys in [&["b"][..], &KEYS] {
        let write = redlock.lock_all(keys).acquire();
        let error = redlock.lock("b").read().run(write).await.unwrap().unwrap_err();
        assert!(matches!(&error, LockError::AlreadyHeld { key, .. } if key == "b"), "{error}");
    }
    let permit = redlock.lock("c").permits(2).acquire();
    let error = redlock.lock_all(KEYS).run(permit).await.unwrap().unwrap_err();
    assert!(matches!(&error, LockError::AlreadyHeld { key, .. } if key == "c"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_turn_names_the_key_that_it_wants() {
    let (redlock, _fake) = fake();
    let inside = async {
        let _first = redlock.lock("b").acquire().await.unwrap();
        redlock.lock("c").wait(EXPIRE).acquire().await.unwrap_err()
    };
    let error = redlock.lock_all(KEYS).run(inside).await.unwrap();
    assert!(matches!(&error, LockError::TurnTaken { key, .. } if key == "c"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_leader_of_several_keys_is_followed_and_campaigns_again_after_a_loss() {
    let (redlock, fake) = fake();
    let terms = Arc::new(AtomicU32::new(0));
    let request = redlock.lock_all(KEYS).expire(EXPIRE);
    let leads = request.lead(|lease: Lease| {
        let (term, fake) = (terms.fetch_add(1, Ordering::SeqCst), &fake);
        async move {
            assert_eq!(lease.keys(), KEYS);
            if term == 0 {
                fake.store.set("c", "thief", SECOND);
                tokio::time::sleep(60 * SECOND).await;
            }
            lease.fencing_token()
        }
    });
    let first = leads.await.unwrap();
    assert_eq!(terms.load(Ordering::SeqCst), 2);
    let second = another(&fake).lock_all(["c", "b"]).lead(|lease: Lease| async move {
        assert!(lease.fencing_token() > first);
    });
    second.await.unwrap();
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(taken(&fake, &KEYS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn who_holds_the_keys_cannot_campaign_for_them() {
    let (redlock, _fake) = fake();
    for keys in [&["b"][..], &["b", "c"], &["c", "d"]] {
        let campaign = redlock.lock_all(keys).lead(|_| async {});
        let error = redlock.lock_all(KEYS).run(campaign).await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::AlreadyHeld { .. }), "{error}");
    }
}

#[test]
fn several_keys_are_had_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (redlock, other) = runtime.block_on(on_memory());
    let guard = redlock.lock_all(KEYS).acquire_blocking().unwrap();
    assert_eq!(guard.keys(), KEYS);
    assert!(other.lock_all(["d", "c"]).try_acquire_blocking().unwrap().is_none());
    guard.release_blocking().unwrap();
    let guard = other.lock_all(["d", "c"]).try_acquire_blocking().unwrap().unwrap();
    guard.release_blocking().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_test_kit_plays_faults_of_each_of_several_keys() {
    let store = FaultyStore::new();
    let redlock = Redlock::builder().faulty_store(&store).prefix("").build().await.unwrap();
    let owner = |key: &str| store.owner(key);
    // The reply about the second key is lost: it is asked for again, and nothing is kept twice.
    store.next(Command::Acquire).delay(SECOND / 100);
    store.next(Command::Acquire).lose_reply();
    let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
    assert!(KEYS.iter().all(|key| owner(key).is_some()));
    for key in KEYS {
        assert_held!(redlock, key);
    }
    store.steal("b");
    assert_eq!(guard.lost().await, LostReason::Stolen);
    drop(guard);
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert!(owner("a").is_none() && owner("c").is_none());
    assert_not_held!(redlock, "c");

    store.expire("b");
    store.every(Command::Raise).refuse(NodeErrorKind::NoPermission);
    let error = redlock.lock_all(KEYS).wait(SECOND).acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "the keys would have fencing tokens of their own: {error}");
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert!(KEYS.iter().all(|key| owner(key).is_none()));
    store.heal();
    store.down();
    assert!(redlock.lock_all(KEYS).wait(SECOND).acquire().await.unwrap_err().is_unavailable());
    store.up();
    assert!(redlock.lock_all(KEYS).try_acquire().await.unwrap().is_some());
}

/// Its attempts are answered with the owner of that key, not with that of the first.
#[tokio::test(start_paused = true)]
async fn who_waits_for_one_of_the_keys_does_not_end_the_hold() {
    for key in KEYS {
        let server = Server::new();
        let redlock = server.client();
        let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
        let waits = || redlock.lock(key).wait(3 * SECOND).acquire();
        for _ in 0..5 {
            let error = waits().await.unwrap_err();
            let LockError::Timeout { holder, .. } = &error else { panic!("{error}") };
            assert_eq!((guard.check(), holder), (Ok(()), &server.owner(key)), "{key}");
        }
        guard.release().await.unwrap();
    }
}

/// The key is named, which another owner has or nobody.
#[tokio::test(start_paused = true)]
async fn who_waits_for_one_of_the_keys_tells_the_hold_that_it_was_lost() {
    for key in KEYS {
        for (is_stolen, why) in [(true, LostReason::Stolen), (false, LostReason::Expired)] {
            let server = Server::new();
            let redlock = server.client();
            let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
            server.remove(key);
            if is_stolen {
                server.set(key, EXPIRE);
            }
            let waited = redlock.lock(key).wait(2 * SECOND).acquire().await;
            assert_eq!(waited.is_err(), is_stolen);
            let error = guard.check().unwrap_err();
            let LockError::Lost { key: lost, reason, .. } = &error else { panic!("{error}") };
            assert_eq!((&**lost, *reason), (key, why));
        }
    }
}
