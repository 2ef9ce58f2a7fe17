//! What `health` finds, and how long calls wait in an outage.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND, client_giving_up, fake, fake_giving_up};
use super::server::Server;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::health::{Health, NodeHealth};
use crate::options::Wait;
use crate::testing::FaultyStore;

fn usable(health: &Health) -> Vec<bool> {
    health.nodes().iter().map(NodeHealth::is_usable).collect()
}

#[tokio::test(start_paused = true)]
async fn memory_is_always_there() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let health = redlock.health().await;
    assert!(health.is_available() && usable(&health) == [true]);
    assert_eq!(health.nodes()[0].round_trip(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_check_is_bounded_by_the_reply_timeout_and_takes_no_lock() {
    let (redlock, fake) = fake();
    fake.always(Some(Fate::Slow(SECOND / 4)));
    let slow = redlock.health().await;
    assert_eq!(slow.nodes()[0].round_trip(), Some(SECOND / 4));
    fake.always(Some(Fate::LostReply));
    let start = Instant::now();
    let silent = redlock.health().await;
    assert_eq!(start.elapsed(), SECOND);
    assert_eq!((silent.is_available(), silent.nodes()[0].is_reachable()), (false, false));
    assert_eq!(silent.nodes()[0].error().unwrap().kind(), NodeErrorKind::NoReply);
    assert!(silent.nodes()[0].since() > slow.nodes()[0].since());
    fake.always(None);
    assert!(redlock.health().await.is_available());
    assert!(fake.take_log().is_empty(), "nothing was asked of any lock");
}

#[tokio::test(start_paused = true)]
async fn of_three_masters_two_are_enough() {
    let masters: [FaultyStore; 3] = FaultyStore::masters();
    let redlock = Redlock::builder().faulty_stores(&masters).build().await.unwrap();
    drop(redlock.lock("k").acquire().await.unwrap());
    assert_eq!(usable(&redlock.health().await), [true, true, true]);
    masters[1].down();
    let health = redlock.health().await;
    assert!(health.is_available() && usable(&health) == [true, false, true], "{health}");
    masters[2].down();
    let health = redlock.health().await;
    assert!(!health.is_available() && usable(&health) == [true, false, false], "{health}");
    masters[1].up();
    masters[2].up();
    masters[2].restart();
    let health = redlock.health().await;
    let last = &health.nodes()[2];
    assert!(health.is_available() && last.is_reachable() && !last.is_usable(), "{health}");
    assert_eq!(last.error().unwrap().kind(), NodeErrorKind::Quarantined);
}

/// No other server can tell how long it has been up: the first call will be refused.
#[tokio::test(start_paused = true)]
async fn a_single_guarded_server_is_unavailable_until_its_first_lease_could_be_over() {
    let store = FaultyStore::new();
    let builder = Redlock::builder().faulty_store(&store).restart_guard(true);
    let redlock = builder.expire(10 * SECOND).lazy().build().await.unwrap();
    tokio::time::sleep(9 * SECOND).await;
    let health = redlock.health().await;
    assert_eq!(usable(&health), [false], "{health}");
    assert_eq!(health.nodes()[0].error().unwrap().kind(), NodeErrorKind::Quarantined);
    assert!(is_unavailable(&redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err()));
    tokio::time::sleep(2 * SECOND).await;
    assert!(redlock.health().await.is_available());
    drop(redlock.lock("k").wait(Wait::Never).acquire().await.unwrap());
}

/// Before any call: nothing is known of the group but what its servers tell.
#[tokio::test(start_paused = true)]
async fn fresh_masters_are_available_and_a_restarted_one_is_known_without_a_call() {
    let masters: [FaultyStore; 3] = FaultyStore::masters();
    let client = async || Redlock::builder().faulty_stores(&masters).lazy().build().await.unwrap();
    let first = client().await;
    assert_eq!(usable(&first.health().await), [true; 3]);
    drop(first.lock("k").acquire().await.unwrap());
    masters[2].restart();
    tokio::time::sleep(SECOND).await;
    let health = client().await.health().await;
    assert_eq!(usable(&health), [true, true, false], "{health}");
}

fn is_unavailable(error: &LockError) -> bool {
    matches!(error, LockError::Unavailable { .. })
}

#[tokio::test(start_paused = true)]
async fn calls_give_up_when_an_outage_has_lasted_for_long_enough() {
    let (redlock, fake) = fake_giving_up(2 * SECOND);
    fake.always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    let lock = || redlock.lock("k").wait(Wait::Forever);
    let start = Instant::now();
    let second = async {
        tokio::time::sleep(SECOND).await;
        let asked = start.elapsed();
        (lock().acquire().await, start.elapsed().saturating_sub(asked))
    };
    let (first, second) = tokio::join!(lock().acquire(), second);
    assert!(is_unavailable(&first.unwrap_err()));
    assert!(is_unavailable(&second.0.unwrap_err()));
    assert!((2 * SECOND..5 * SECOND / 2).contains(&second.1), "{:?}", second.1);
    let begun = Instant::now();
    let hasty = redlock.lock("k").wait(SECOND / 2).acquire().await.unwrap_err();
    assert!(is_unavailable(&hasty) && begun.elapsed() < SECOND, "`wait` is the bound");
}

#[tokio::test(start_paused = true)]
async fn without_patience_the_first_failure_ends_the_call() {
    let (redlock, fake) = fake_giving_up(Duration::ZERO);
    fake.next_acquires([Fate::Refused(NodeErrorKind::Unreachable, false)]);
    let start = Instant::now();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(is_unavailable(&error) && start.elapsed().is_zero());
    drop(redlock.lock("k").acquire().await.unwrap());
}

/// With one command for all of them, and with one after another.
#[tokio::test(start_paused = true)]
async fn a_call_for_several_keys_gives_up_in_an_outage_like_any_other() {
    let (redlock, fake) = fake_giving_up(SECOND / 2);
    fake.next_raises(vec![Fate::Refused(NodeErrorKind::Unreachable, false); 10_000]);
    let start = Instant::now();
    let error = redlock.lock_all(["a", "b"]).wait(60 * SECOND).acquire().await.unwrap_err();
    assert!(is_unavailable(&error) && start.elapsed() <= SECOND, "{:?}: {error}", start.elapsed());

    let server = Server::new();
    server.acquires_all();
    let redlock = client_giving_up(server.clone(), Duration::ZERO);
    server.next("acquire_all", [Fate::LostRequest]);
    let error = redlock.lock_all(["a", "b"]).acquire().await.unwrap_err();
    assert!(is_unavailable(&error), "{error}");
}

/// Only the time of failures counts, not that for which somebody held the lock.
#[tokio::test(start_paused = true)]
async fn a_long_wait_for_a_busy_lock_is_no_outage() {
    let (redlock, fake) = fake_giving_up(2 * SECOND);
    fake.store.set("k", "somebody", 60 * SECOND);
    let waiter = tokio::spawn(redlock.lock("k").wait(Wait::Forever).acquire());
    tokio::time::sleep(10 * SECOND).await;
    let down = || fake.always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    down();
    tokio::time::sleep(SECOND).await;
    fake.always(None);
    tokio::time::sleep(SECOND).await;
    down();
    tokio::time::sleep(3 * SECOND / 2).await;
    assert!(!waiter.is_finished());
    tokio::time::sleep(SECOND).await;
    assert!(is_unavailable(&waiter.await.unwrap().unwrap_err()));
}

/// The lock was taken back from it: what it asks now begins now.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_polled_sits_an_outage_out_like_any_other() {
    let (redlock, fake) = fake_giving_up(2 * SECOND);
    let held = redlock.lock("k").acquire().await.unwrap();
    let mut call = pin!(redlock.lock("k").wait(60 * SECOND).acquire());
    assert!(tokio::time::timeout(Duration::ZERO, call.as_mut()).await.is_err());
    held.release().await.unwrap();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(fake.store.owner("k"), None, "taken back");
    fake.next_acquires(vec![Fate::Refused(NodeErrorKind::Unreachable, false); 1000]);
    let start = Instant::now();
    assert!(is_unavailable(&call.await.unwrap_err()));
    assert!((2 * SECOND..3 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
}

/// It has waited since it was called, and is given one more attempt that is as short as any last
/// one.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_polled_until_its_wait_was_over_has_a_short_last_attempt() {
    for is_busy in [true, false] {
        let (redlock, fake) = fake();
        let wait = 10 * SECOND;
        let held = redlock.lock("k").acquire().await.unwrap();
        let mut call = pin!(redlock.lock("k").wait(wait).acquire());
        assert!(tokio::time::timeout(Duration::ZERO, call.as_mut()).await.is_err());
        held.release().await.unwrap();
        tokio::time::sleep(2 * wait).await;
        if is_busy {
            fake.store.set("k", "somebody", 60 * SECOND);
        } else {
            fake.always(Some(Fate::LostRequest));
        }
        let start = Instant::now();
        let error = call.await.unwrap_err();
        assert!(start.elapsed() <= SECOND / 3, "{:?}", start.elapsed());
        match error {
            LockError::Timeout { waited, .. } if is_busy => assert!(waited >= 2 * wait),
            error => assert!(!is_busy && is_unavailable(&error), "{error}"),
        }
    }
}

/// A holder of the same process tells its waiters when it lets go, but an outage it does not tell.
#[tokio::test(start_paused = true)]
async fn one_failure_beside_a_holder_of_the_process_is_no_outage() {
    let server = Server::new();
    let redlock = client_giving_up(server.clone(), SECOND / 2);
    let held = redlock.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(redlock.lock("k").wait(Wait::Forever).acquire());
    tokio::time::sleep(SECOND / 2).await;
    server.next("acquire", [Fate::Refused(NodeErrorKind::Unreachable, false)]);
    tokio::time::sleep(3 * SECOND).await;
    assert!(!waiter.is_finished());
    held.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
}
