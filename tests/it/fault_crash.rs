//! Servers that die under a held lock, come back with or without their data, or are flushed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use redlock::{LockError, LostReason, NodeErrorKind as Kind, Redlock, Released};

use crate::fault_kit::{LONG, NOISE, Steps, assert_unavailable, client, nothing_left};
use crate::support::{Server, capture, eventually, ms, secs, time_passes};

#[track_caller]
fn reason<T: std::fmt::Debug>(outcome: Result<T, LockError>) -> LostReason {
    match outcome {
        Err(LockError::Lost { reason, .. }) => reason,
        other => panic!("not lost: {other:?}"),
    }
}

#[tokio::test]
async fn a_killed_server_stops_the_body_before_the_lease_would_have_ended() {
    let server = Server::start().await;
    let (redlock, _) = client(&server.url()).await;
    let expire = secs(2);
    let steps = Steps::new();
    let run = redlock.lock("k").expire(expire).run(steps.clone().take());
    let run = tokio::spawn(run);
    eventually(secs(20), || async { !redlock.held().is_empty() }).await;
    server.kill9();
    let killed = Instant::now();
    assert_eq!(reason(run.await.unwrap()), LostReason::Unreachable);
    // No renewal can have been sent after the kill.
    assert!(steps.last() < killed + expire);
    let error = redlock.lock("k").wait(ms(200)).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::Unreachable);
    // The clean-up of the lost lock ends by itself.
    assert_eq!(redlock.shutdown(expire + NOISE).await, 0);
}

#[tokio::test]
async fn a_server_that_forgot_the_lock_says_so_at_the_next_renewal() {
    let server = Server::start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let steps = Steps::new();
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    server.restart_empty().await;
    let (other, _) = client(&server.url()).await;
    assert_eq!(reason(guard.protect(steps.clone().take()).await), LostReason::Expired);
    assert_eq!(guard.release().await, Ok(Released::Expired));
    assert_eq!(other.lock("k").run(async { 1 }).await, Ok(1));
    nothing_left(&server.raw(), &prefix, secs(1)).await;
}

/// A client that sends nothing meanwhile learns of it by its release, which is not one that may
/// have been carried out before: the connection had ended.
#[tokio::test]
async fn a_body_on_a_server_that_forgot_its_lock_is_told_to_have_been_unprotected() {
    let events = capture();
    for is_held in [false, true] {
        let server = Server::start().await;
        let (redlock, prefix) = client(&server.url()).await;
        let other = Redlock::builder().url(server.url()).prefix(prefix.clone());
        // Events name a key without its prefix.
        let key = format!("{prefix}of a body");
        let guard = redlock.lock("guarded").acquire().await.unwrap();
        let mut held = Vec::new();
        let body = async {
            server.restart_empty().await;
            let other = other.build().await.unwrap();
            for key in [&*key, "guarded"] {
                let taken = other.lock(key).acquire().await.unwrap();
                if is_held {
                    held.push(taken);
                } else {
                    assert_eq!(taken.release().await, Ok(Released::Released));
                }
            }
        };
        assert_eq!(redlock.lock(&*key).run(body).await, Ok(()));
        let found = if is_held { Released::Stolen } else { Released::Expired };
        assert_eq!(guard.release().await, Ok(found));
        let _ = events.wait_for(NOISE, &key, "were not protected").await;
    }
}

/// The connection has ended before the release, and the client library says nothing of it.
#[tokio::test]
async fn a_release_after_an_idle_connection_was_closed_says_what_it_finds() {
    let server = Server::start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let mut found = Vec::new();
    for _ in 0..11 {
        let guard = redlock.lock("k").acquire().await.unwrap();
        server.raw().cmd(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        assert!(server.raw().del(&format!("{prefix}k")).await);
        time_passes(ms(20)).await;
        found.push(guard.release().await.unwrap());
    }
    // A client that is slower to notice the end than this is to release cannot know.
    found.sort_unstable_by_key(|found| *found != Released::Expired);
    assert_eq!(found[5], Released::Expired, "{found:?}");
    assert!(found[6..].iter().all(|found| matches!(found, Released::Expired | Released::Unknown)));
}

#[tokio::test]
async fn a_lock_that_was_forgotten_and_taken_by_another_is_stolen() {
    let server = Server::start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    server.restart_empty().await;
    let other = Redlock::builder().url(server.url()).prefix(prefix.clone()).build().await.unwrap();
    let second = other.lock("k").acquire().await.unwrap();
    assert!(second.fencing_token() > guard.fencing_token(), "the counter was lost, the order not");
    assert_eq!(guard.lost().await, LostReason::Stolen);
    // The first one's release leaves the second one's lock alone.
    assert_eq!(guard.release().await, Ok(Released::Stolen));
    let owner = server.raw().get(&format!("{prefix}k")).await;
    assert_eq!(owner.as_deref(), Some(second.owner()));
    assert_eq!(second.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_lease_outlives_a_server_that_keeps_its_data() {
    let server = Server::builder().append_only("always").start().await;
    let (redlock, _) = client(&server.url()).await;
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    server.restart_keeping_data().await;
    let (before, rival) = (guard.renewals(), redlock.lock("k"));
    let rival = tokio::spawn(rival.wait(LONG).acquire());
    eventually(secs(10), || async { guard.renewals() > before }).await;
    assert_eq!(guard.check(), Ok(()));
    assert!(!rival.is_finished());
    assert_eq!(guard.release().await, Ok(Released::Released));
    drop(rival.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_flushed_database_loses_the_locks_and_says_so() {
    let server = Server::start().await;
    let (redlock, _) = client(&server.url()).await;
    let holds = (0..20).map(|n| {
        let request = redlock.lock(format!("k{n}")).expire(secs(6));
        tokio::spawn(request.run(std::future::pending::<()>()))
    });
    let holds: Vec<_> = holds.collect();
    eventually(secs(20), || async { redlock.held().len() == 20 }).await;
    server.raw().cmd(&["FLUSHALL"]).await;
    for hold in holds {
        assert_eq!(reason(hold.await.unwrap()), LostReason::Expired);
    }
    assert!(redlock.held().is_empty());
}

#[tokio::test]
async fn a_flush_between_the_body_and_its_release_does_not_spoil_the_result() {
    let server = Server::start().await;
    let (redlock, _) = client(&server.url()).await;
    let raw = server.raw();
    let outcome = redlock.lock("k").run(async {
        raw.cmd(&["FLUSHALL"]).await;
        7
    });
    assert_eq!(outcome.await, Ok(7));
    let guard = redlock.lock("k").acquire().await.unwrap();
    raw.cmd(&["FLUSHALL"]).await;
    assert_eq!(guard.release().await, Ok(Released::Expired));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_nobodys_error() {
    let server = Server::start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let long = redlock.lock("long").expire(secs(3)).acquire().await.unwrap();
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let (redlock, stop, rounds) = (redlock.clone(), stop.clone(), rounds.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let key = format!("k{}", n % 4);
                    redlock.lock(key).wait(LONG).run(async {}).await.unwrap();
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let raw = server.raw();
    while long.renewals() == 0 && long.check().is_ok() {
        raw.cmd(&["SCRIPT", "FLUSH"]).await;
        time_passes(ms(3)).await;
    }
    assert_eq!(long.check(), Ok(()));
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(rounds.load(Ordering::SeqCst) > 100);
    assert_eq!(long.release().await, Ok(Released::Released));
    nothing_left(&raw, &prefix, secs(1)).await;
}
