//! Several keys with one command: when it is sent, what follows where it is refused, lost or late,
//! and callers that go away.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND};
use super::server::Server;
use super::several_keys::EXPIRE;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;
use crate::state::Released;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// A server that takes several locks with one command, and a client of it.
fn server() -> (Arc<Server>, Redlock) {
    let server = Server::new();
    server.acquires_all();
    let redlock = server.client();
    (server, redlock)
}

fn taken(server: &Server) -> Vec<&'static str> {
    KEYS.into_iter().filter(|key| server.owner(key).is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn free_keys_cost_one_command_and_one_to_release_them() {
    let (server, redlock) = server();
    let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
    assert_eq!(server.take_verbs(), ["acquire_all"]);
    assert_eq!((taken(&server), guard.keys().len()), (KEYS.to_vec(), 3));
    assert!(guard.remaining() > EXPIRE * 9 / 10);
    let owner = guard.owner().to_owned();
    assert_eq!(server.owner("a"), Some(owner));
    guard.release().await.unwrap();
    assert_eq!(server.take_verbs(), ["release_all"]);
    assert_eq!(taken(&server), [""; 0]);
}

/// What it did not do each key does by itself; what it did is not known any more.
#[tokio::test(start_paused = true)]
async fn a_release_of_all_that_is_not_answered_goes_on_for_every_key() {
    for fate in [Fate::LostReply, Fate::LostRequest] {
        let (server, redlock) = server();
        let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
        server.next("release_all", [fate]);
        guard.release().await.unwrap_err();
        tokio::time::sleep(SECOND).await;
        assert_eq!(taken(&server), [""; 0], "{fate:?}");
        let verbs = server.take_verbs();
        assert_eq!(verbs[1..], ["release_all", "release", "release", "release"], "{fate:?}");
        assert_eq!(redlock.shutdown(SECOND).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_of_all_that_is_dropped_goes_on_for_every_key() {
    let (server, redlock) = server();
    let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
    server.next("release_all", [Fate::LostRequest]);
    let mut release = Box::pin(guard.release());
    assert!(poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx))).await.is_pending());
    drop(release);
    tokio::time::sleep(SECOND).await;
    assert_eq!(taken(&server), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_release_of_all_tells_of_the_worst() {
    for lost in KEYS {
        let (server, redlock) = server();
        let guard = redlock.lock_all(KEYS).expire(EXPIRE).acquire().await.unwrap();
        server.remove(lost);
        server.set(lost, EXPIRE);
        assert_eq!(guard.release().await.unwrap(), Released::Stolen, "{lost}");
        assert_eq!(taken(&server), [lost], "the others are free");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_wait_sends_nothing_else() {
    let (server, redlock) = server();
    let held = server.set("b", EXPIRE);
    let error = redlock.lock_all(KEYS).wait(Wait::Never).acquire().await.unwrap_err();
    let LockError::Timeout { key, holder, attempts: 1, .. } = &error else { panic!("{error}") };
    assert_eq!((&**key, holder.as_deref()), ("b", Some(held.owner.as_str())));
    assert_eq!(server.take_verbs(), ["acquire_all"]);
    assert_eq!(taken(&server), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_queues_for_each_key() {
    let (server, redlock) = server();
    let held = server.set("b", EXPIRE);
    let waiting = tokio::spawn(redlock.lock_all(KEYS).expire(EXPIRE).acquire());
    tokio::time::sleep(SECOND).await;
    assert_eq!(taken(&server), ["a", "b"]);
    assert_eq!(server.waiting(), 1);
    server.free(&held);
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!((taken(&server), guard.keys().len()), (KEYS.to_vec(), 3));
    guard.release().await.unwrap();
    assert_eq!((taken(&server), server.waiting()), (vec![], 0));
}

/// A user without the permission for the script.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_command_is_asked_for_one_key_after_another() {
    let (server, redlock) = server();
    let denied = Fate::Refused(NodeErrorKind::NoPermission, true);
    for wait in [Wait::Never, Wait::Forever] {
        server.next("acquire_all", [denied]);
        let guard = redlock.lock_all(KEYS).wait(wait).acquire().await.unwrap();
        assert_eq!(taken(&server), KEYS);
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_cleaned_up_for_every_key() {
    for fate in [Fate::LostReply, Fate::LostRequest] {
        let (server, redlock) = server();
        server.next("acquire_all", [fate]);
        let error = redlock.lock_all(KEYS).wait(Wait::Never).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert_eq!(redlock.shutdown(SECOND).await, 0);
        assert_eq!(taken(&server), [""; 0]);
        // A call that waits goes on one by one, behind what may still be held by the lost one.
        server.next("acquire_all", [fate]);
        let guard = redlock.lock_all(KEYS).wait(5 * SECOND).acquire().await.unwrap();
        tokio::time::sleep(4 * SECOND).await;
        guard.check().unwrap();
        assert_eq!(taken(&server), KEYS, "the clean-up leaves other owners alone");
        guard.release().await.unwrap();
    }
}

/// The first try of the command may land behind the release.
#[tokio::test(start_paused = true)]
async fn what_was_granted_to_a_second_try_is_cleaned_up_behind_its_release() {
    let (server, redlock) = server();
    server.repeats_acquires();
    let guard = redlock.lock_all(KEYS).acquire().await.unwrap();
    server.take_log();
    guard.release().await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    let mut releases = server.take_verbs();
    assert_eq!(releases.remove(0), "release_all");
    assert!(releases.len() > 2 && releases.iter().all(|verb| verb == "release"), "{releases:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_released() {
    let (server, redlock) = server();
    let expire = Duration::from_millis(500);
    server.next("acquire_all", [Fate::Slow(Duration::from_millis(490))]);
    let guard = redlock.lock_all(KEYS).expire(expire).wait(5 * SECOND).acquire().await.unwrap();
    assert!(guard.check().is_ok() && guard.remaining() > expire / 2);
    guard.release().await.unwrap();
    assert_eq!(taken(&server), [""; 0]);
}

/// Also where the command is sent by a task, for a caller that cannot reach the server from here.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_poll_leaves_nothing() {
    for has_local_connection in [false, true] {
        let mut is_granted = false;
        for polls in 0..20 {
            let (server, redlock) = server();
            if has_local_connection {
                server.give_local_connection();
            }
            server.next("acquire_all", [Fate::Slow(Duration::from_millis(5))]);
            let mut call = Box::pin(redlock.lock_all(KEYS).expire(EXPIRE).acquire());
            for _ in 0..polls {
                is_granted |= poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await.is_ready();
                if is_granted {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(call);
            tokio::time::sleep(5 * SECOND).await;
            assert_eq!(taken(&server), [""; 0], "after {polls} polls");
            assert!(redlock.held().is_empty());
            if is_granted {
                break;
            }
        }
        assert!(is_granted);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_overtaken_in_this_process() {
    let (server, redlock) = server();
    let held = redlock.lock("b").expire(EXPIRE).acquire().await.unwrap();
    let first = tokio::spawn(redlock.lock("b").expire(EXPIRE).wait(Wait::Forever).acquire());
    tokio::time::sleep(Duration::from_millis(1)).await;
    let several = tokio::spawn(redlock.lock_all(KEYS).expire(EXPIRE).acquire());
    tokio::time::sleep(Duration::from_millis(1)).await;
    held.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(!several.is_finished());
    assert!(server.take_verbs().iter().all(|verb| verb != "acquire_all"));
    first.release().await.unwrap();
    drop(several.await.unwrap().unwrap());
}

/// A call for twelve keys, of which somebody has the last one. Each command takes so long.
async fn twelve(round_trip: Duration, wait: Duration) -> (LockError, String) {
    let (server, redlock) = server();
    let keys: Vec<String> = (10..22).map(|number| format!("k{number}")).collect();
    let owner = server.set("k21", 60 * SECOND).owner.as_str().to_owned();
    for verb in ["acquire_all", "acquire", "join", "look", "raise"] {
        server.next(verb, [Fate::Slow(round_trip); 100]);
    }
    let start = Instant::now();
    let error = redlock.lock_all(&keys).wait(wait).acquire().await.unwrap_err();
    let late = start.elapsed().saturating_sub(wait);
    assert!(late <= Duration::from_millis(251), "{late:?}: {error}");
    (error, owner)
}

/// There is no time to ask for each of them.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_told_who_has_a_key_is_busy() {
    for round_trip in [30, 60, 120, 300].map(Duration::from_millis) {
        for wait in [SECOND / 10, SECOND / 2] {
            let (error, owner) = twelve(round_trip, wait).await;
            let LockError::Timeout { key, holder, waited, .. } = &error else { panic!("{error}") };
            assert_eq!((&**key, holder.as_deref()), ("k21", Some(&*owner)), "{error}");
            assert!(*waited >= wait, "{error}");
        }
    }
}

/// A key that it was refused at first may be its own by the time that another one is out of reach.
#[tokio::test(start_paused = true)]
async fn what_a_call_was_told_of_a_key_that_it_has_by_now_is_not_its_error() {
    let (server, redlock) = server();
    let held = server.set("a", EXPIRE);
    let wait = SECOND / 2;
    let waiting = tokio::spawn(redlock.lock_all(KEYS).expire(EXPIRE).wait(wait).acquire());
    tokio::time::sleep(SECOND / 4).await;
    // The first of them claims the key that is handed over.
    server.next("acquire", [Fate::Slow(Duration::ZERO)]);
    for verb in ["acquire", "join"] {
        server.next(verb, [Fate::LostRequest; 100]);
    }
    server.free(&held);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.key() == Some("b"), "{error}");
}

/// No other key has used up the time.
#[tokio::test(start_paused = true)]
async fn a_command_without_an_answer_is_not_blamed_on_other_keys() {
    for wait in [Wait::Never, Wait::AtMost(SECOND * 3 / 10), Wait::AtMost(SECOND)] {
        let (server, redlock) = server();
        server.next("acquire_all", vec![Fate::LostRequest; 100]);
        server.next("acquire", vec![Fate::LostRequest; 100]);
        let error = redlock.lock_all(KEYS).wait(wait).acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.key() == Some("a"), "{error}");
        assert!(!error.to_string().contains("other keys"), "{wait:?}: {error}");
    }
}
