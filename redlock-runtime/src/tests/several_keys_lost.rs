//! Several keys of which one is lost, refused or not answered for, and callers that go away.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND, fake};
use super::server::Server;
use super::several_keys::{EXPIRE, taken};
use crate::error::{LockError, NodeErrorKind};
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::{LeaseState, LostReason, Released};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// `b` is handed over for half a second, which ends earlier than the lease of `a`, and has shorter
/// margins.
#[tokio::test(start_paused = true)]
async fn the_body_stops_with_the_lease_that_has_to_stop_first() {
    for millis in (9_000..9_390).step_by(30) {
        let (server, begun) = (Server::new(), Instant::now());
        let held = server.set("b", 60 * SECOND);
        server.next("renew", vec![Fate::Refused(NodeErrorKind::Unreachable, false); 1000]);
        let redlock = server.client();
        let call = redlock.lock_all(["a", "b"]).expire(EXPIRE).wait(Wait::Forever).acquire();
        let call = tokio::spawn(call.into_future());
        tokio::time::sleep(Duration::from_millis(millis)).await;
        server.free(&held);
        let guard = call.await.unwrap().unwrap();
        assert_eq!(guard.keys(), ["a", "b"]);
        let stop = begun.elapsed() + guard.remaining();
        assert!(stop <= Duration::from_millis(9_398), "{millis} ms: after that of `a`, {stop:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_key_stops_the_body_and_frees_the_others() {
    for (key, is_stolen) in [("a", true), ("b", true), ("c", false)] {
        let (redlock, fake) = fake();
        let store = fake.store.clone();
        let body = async move {
            let lease = Lease::current().unwrap();
            if is_stolen {
                store.set(key, "thief", 60 * SECOND);
            } else {
                store.remove(key);
            }
            tokio::time::sleep(60 * SECOND).await;
            drop(lease);
            unreachable!("it is stopped");
        };
        let error = redlock.lock_all(KEYS).expire(EXPIRE).run(body).await.unwrap_err();
        let LockError::Lost { key: lost, reason, held_for, .. } = &error else { panic!("{error}") };
        let expected = if is_stolen { LostReason::Stolen } else { LostReason::Expired };
        assert_eq!((&**lost, *reason), (key, expected));
        assert!(*held_for < EXPIRE * 7 / 10, "at the first renewal: {held_for:?}");
        assert_eq!(redlock.shutdown(SECOND).await, 0);
        let left = if is_stolen { vec![key] } else { vec![] };
        assert_eq!(taken(&fake, &KEYS), left, "a thief keeps what it has");
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_lost_with_one_of_its_keys_and_its_drop_releases_the_others() {
    let (redlock, fake) = fake();
    let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
    let lease = guard.lease().clone();
    fake.store.set("c", "thief", 60 * SECOND);
    assert_eq!(lease.lost().await, LostReason::Stolen);
    assert_eq!((lease.state(), lease.remaining()), (LeaseState::Lost, Duration::ZERO));
    assert!(redlock.held().is_empty());
    assert_eq!(guard.release().await.unwrap(), Released::Stolen);
    assert_eq!(taken(&fake, &KEYS), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn renewals_that_are_not_answered_stop_all() {
    let (redlock, fake) = fake();
    let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
    fake.next_renews(vec![Fate::LostRequest; 1000]);
    tokio::time::sleep(EXPIRE * 8 / 10).await;
    assert_eq!(guard.state(), LeaseState::Uncertain);
    assert_eq!(guard.lost().await, LostReason::Unreachable);
}

/// The answer of a renewal that comes behind the end changes nothing of it.
#[tokio::test(start_paused = true)]
async fn a_loss_that_is_found_after_the_release_is_not_told_of() {
    let (redlock, fake) = fake();
    let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
    let lease = guard.lease().clone();
    fake.store.set("c", "thief", 60 * SECOND);
    fake.next_renews([Fate::Slow(SECOND / 2)]);
    tokio::time::sleep(EXPIRE * 2 / 3 + SECOND / 4).await;
    guard.release().await.unwrap();
    tokio::time::sleep(SECOND).await;
    let error = lease.check().unwrap_err();
    let LockError::Lost { key, reason, .. } = &error else { panic!("{error}") };
    assert_eq!((&**key, *reason), ("a", LostReason::Released));
}

/// What was had is given up, and the whole call begins again.
#[tokio::test(start_paused = true)]
async fn a_key_lost_while_others_are_waited_for_is_taken_again() {
    let (redlock, fake) = fake();
    fake.store.set("c", "somebody", 20 * SECOND);
    let request = redlock.lock_all(KEYS).expire(EXPIRE).wait(Wait::Forever);
    let waiting = tokio::spawn(request.acquire());
    tokio::time::sleep(SECOND).await;
    let before = fake.store.owner("b");
    fake.store.remove("a");
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(taken(&fake, &KEYS), KEYS);
    assert_ne!(fake.store.owner("b"), before, "by another owner");
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(taken(&fake, &KEYS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_stolen_while_others_are_waited_for_is_named_in_the_end() {
    let (redlock, fake) = fake();
    fake.store.set("c", "somebody", 60 * SECOND);
    let request = redlock.lock_all(KEYS).expire(EXPIRE).wait(15 * SECOND);
    let waiting = tokio::spawn(request.acquire());
    tokio::time::sleep(SECOND).await;
    fake.store.set("a", "thief", 60 * SECOND);
    let error = waiting.await.unwrap().unwrap_err();
    let LockError::Timeout { key, holder, waited, .. } = error else { panic!("{error}") };
    assert_eq!((&*key, holder.as_deref()), ("a", Some("thief")));
    assert!(waited >= 15 * SECOND, "{waited:?}");
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(taken(&fake, &KEYS), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_middle_leaves_nothing() {
    let refused = Fate::Refused(NodeErrorKind::NoPermission, true);
    for (answered, refused_key) in KEYS.into_iter().enumerate() {
        let (redlock, fake) = fake();
        let fates = std::iter::repeat_n(Fate::Slow(Duration::from_millis(1)), answered);
        fake.next_acquires(fates.chain([refused]));
        let error = redlock.lock_all(KEYS).acquire().await.unwrap_err();
        assert_eq!((error.is_unavailable(), error.key()), (true, Some(refused_key)));
        assert_eq!(redlock.shutdown(SECOND).await, 0);
        assert_eq!(taken(&fake, &KEYS), [""; 0], "after {answered}");
    }
}

/// It is not known whether the counters were raised: it is tried again, and nothing runs before.
#[tokio::test(start_paused = true)]
async fn an_agreement_without_an_answer_is_tried_again() {
    let (redlock, fake) = fake();
    fake.next_raises([Fate::LostReply, Fate::LostRequest, Fate::LostReply]);
    let guard = redlock.lock_all(KEYS).wait(10 * SECOND).acquire().await.unwrap();
    assert!(guard.waited() >= SECOND);
    guard.release().await.unwrap();

    fake.next_raises(vec![Fate::LostRequest; 1000]);
    let error = redlock.lock_all(KEYS).wait(3 * SECOND).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(taken(&fake, &KEYS), [""; 0]);
}

/// The call goes away after each number of polls, a millisecond apart.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_poll_leaves_nothing() {
    for busy in [None, Some("a"), Some("c")] {
        let (mut polls, mut is_granted) = (0, false);
        while !is_granted {
            let (redlock, fake) = fake();
            let slow = Fate::Slow(Duration::from_millis(3));
            fake.next_acquires(vec![slow; 3]);
            fake.next_raises(vec![slow; 3]);
            if let Some(busy) = busy {
                fake.store.set(busy, "somebody", Duration::from_millis(40));
            }
            let mut call = Box::pin(redlock.lock_all(KEYS).expire(EXPIRE).acquire());
            for _ in 0..polls {
                let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
                is_granted = polled.is_ready();
                if is_granted {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(call);
            tokio::time::sleep(5 * SECOND).await;
            assert_eq!(taken(&fake, &KEYS), [""; 0], "after {polls} polls, {busy:?} was busy");
            assert!(redlock.held().is_empty());
            polls += 1;
            assert!(polls < 400, "never granted");
        }
        assert!(polls > 10, "{polls}");
    }
}

/// By the clock instead: the call goes away after each millisecond.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_moment_leaves_nothing() {
    let mut done = 0;
    for millis in 0..80 {
        let server = Server::new();
        let redlock = server.client();
        let slow = vec![Fate::Slow(Duration::from_millis(3)); 6];
        for verb in ["acquire", "join", "raise", "release", "leave"] {
            server.next(verb, slow.clone());
        }
        let held = server.set("c", EXPIRE);
        let is_run = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_run);
        let body = async move {
            flag.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let mut call = Box::pin(redlock.lock_all(KEYS).expire(EXPIRE).run(body));
        let halfway = Duration::from_millis(millis.min(30));
        let _ = tokio::time::timeout(halfway, call.as_mut()).await;
        assert!(!is_run.load(Ordering::Relaxed));
        server.free(&held);
        let rest = Duration::from_millis(millis).saturating_sub(halfway);
        done += u32::from(tokio::time::timeout(rest, call.as_mut()).await.is_ok());
        drop(call);
        tokio::time::sleep(15 * SECOND).await;
        for key in KEYS {
            assert_eq!(server.owner(key), None, "{key} after {millis} ms");
        }
        assert_eq!(server.waiting(), 0, "after {millis} ms");
    }
    assert!(done > 5 && done < 60, "{done} came to their end");
}

/// The leases of the keys end at different times where they could not be renewed together.
#[tokio::test(start_paused = true)]
async fn each_key_is_released_for_as_long_as_its_own_lease_may_last() {
    // The pauses between the tries are by chance, and up to half of the time that has passed.
    fastrand::seed(1);
    for is_taken in [true, false] {
        let (redlock, fake) = fake();
        let start = Instant::now();
        fake.store.set("b", "somebody", EXPIRE / 2);
        fake.next_renews(vec![Fate::LostRequest; 1000]);
        let request = redlock.lock_all(["a", "b"]).expire(EXPIRE).wait(Wait::Forever);
        let call = if is_taken {
            let guard = request.acquire().await.unwrap();
            fake.next_releases(vec![Fate::LostRequest; 1000]);
            drop(guard);
            None
        } else {
            let mut call = Box::pin(request.acquire());
            assert!(tokio::time::timeout(Duration::ZERO, call.as_mut()).await.is_err());
            fake.next_releases(vec![Fate::LostRequest; 1000]);
            Some(call)
        };
        tokio::time::sleep_until(start + EXPIRE * 11 / 10).await;
        fake.take_log();
        tokio::time::sleep(3 * SECOND).await;
        let log = fake.take_log();
        let is_released =
            |key: &str| log.iter().any(|line| line.starts_with(&format!("release {key} ")));
        assert!(is_released("b"), "{is_taken}: {log:?}");
        drop(call);
    }
}
