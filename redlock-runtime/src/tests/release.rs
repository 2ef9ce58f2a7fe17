//! Releases that fail, and drops in odd places.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, Fate, SECOND, fake};
use super::quorum::{nodes, on};
use super::server::Server;
use crate::backend::{Claim, FencingTokens};
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::hold::{ConfirmedLease, Tenure};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::Wait;
use crate::owner::Owner;
use crate::release::ReleaseTask;
use crate::state::Released;

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_told_and_goes_on() {
    let (redlock, fake) = fake();
    fake.next_releases([Fate::Refused(NodeErrorKind::Unreachable, false); 5]);
    let guard = redlock.lock("k").acquire().await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(fake.store.owner("k").is_some());
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(fake.store.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_released_though_the_first_tries_fail() {
    let (redlock, fake) = fake();
    fake.next_releases([Fate::LostRequest, Fate::LostReply]);
    drop(redlock.lock("k").acquire().await.unwrap());
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(fake.store.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_given_up_when_the_lease_is_over_anyway() {
    let (redlock, fake) = fake();
    fake.next_releases(vec![Fate::LostRequest; 1000]);
    drop(redlock.lock("k").expire(10 * SECOND).acquire().await.unwrap());
    assert_eq!(redlock.shutdown(SECOND).await, 1);
    assert_eq!(redlock.shutdown(20 * SECOND).await, 0);
}

/// It may have been carried out, and keeps the lock for another lease.
#[tokio::test(start_paused = true)]
async fn a_release_outlasts_a_renewal_without_an_answer() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").expire(10 * SECOND).acquire().await.unwrap();
    fake.next_renews(vec![Fate::LostReply; 50]);
    fake.always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    guard.lost().await;
    drop(guard);
    tokio::time::sleep(2 * SECOND).await;
    fake.always(None);
    assert!(fake.store.owner("k").is_some(), "it was renewed");
    assert_eq!(redlock.shutdown(5 * SECOND).await, 0);
    assert_eq!(fake.store.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_time_cannot_mend_is_given_up_and_told() {
    let (redlock, fake) = fake();
    fake.next_releases([Fate::Refused(NodeErrorKind::NoPermission, true)]);
    let guard = redlock.lock("k").acquire().await.unwrap();
    let error = guard.release().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoPermission);
    assert_eq!(redlock.shutdown(Duration::ZERO).await, 0);
}

/// A proxy may have said so, whose connection to the server broke.
#[tokio::test(start_paused = true)]
async fn a_release_that_ends_in_an_error_that_proves_nothing_goes_on() {
    let (redlock, fake) = fake();
    fake.next_releases([Fate::Refused(NodeErrorKind::Refused, true); 3]);
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert!(matches!(guard.release().await, Err(LockError::Unavailable { .. })));
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(fake.store.owner("k"), None);
}

/// Of a node that is down nobody asks a hundred times a second that it free a lock.
#[tokio::test(start_paused = true)]
async fn the_pauses_between_the_tries_of_a_release_grow() {
    for is_granted in [true, false] {
        let (redlock, fake) = fake();
        if !is_granted {
            fake.next_acquires([Fate::LostReply]);
        }
        fake.next_releases(vec![Fate::Refused(NodeErrorKind::Unreachable, false); 10_000]);
        let request = redlock.lock("k").expire(10 * SECOND).wait(Wait::Never);
        assert_eq!(request.acquire().await.is_ok(), is_granted);
        tokio::time::sleep(20 * SECOND).await;
        let tries = fake.take_log().iter().filter(|line| line.starts_with("release")).count();
        // Each pause is at least a quarter of the time since the first try, until it is a second.
        assert!((10..=25).contains(&tries), "{tries}");
    }
}

/// A client with a lock that it does not want, which an outage of ten minutes keeps. Otherwise its
/// acquire was not answered.
async fn left_in_an_outage(is_granted: bool) -> (Redlock, Arc<Fake>) {
    let (redlock, fake) = fake();
    if !is_granted {
        fake.next_acquires([Fate::LostReply]);
    }
    let request = redlock.lock("k").expire(3600 * SECOND).wait(Wait::Never);
    let call = tokio::spawn(request.acquire());
    tokio::time::sleep(SECOND / 2).await;
    fake.always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    assert_eq!(call.await.unwrap().is_ok(), is_granted);
    tokio::time::sleep(600 * SECOND).await;
    fake.always(None);
    assert!(fake.store.owner("k").is_some());
    (redlock, fake)
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_let_go_of_in_an_outage_is_free_soon_after_it() {
    for is_granted in [true, false] {
        let (_redlock, fake) = left_in_an_outage(is_granted).await;
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(fake.store.owner("k"), None, "granted: {is_granted}");
    }
}

/// It has less time than the pauses between their tries.
#[tokio::test(start_paused = true)]
async fn a_shutdown_sends_the_releases_that_an_outage_has_kept() {
    for is_granted in [true, false] {
        for _ in 0..5 {
            let (redlock, fake) = left_in_an_outage(is_granted).await;
            assert_eq!(redlock.shutdown(SECOND / 100).await, 0, "granted: {is_granted}");
            assert_eq!(fake.store.owner("k"), None);
        }
    }
}

/// Nobody knows how long the release will fail.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_for_itself_when_the_release_before_it_fails() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").expire(60 * SECOND).acquire().await.unwrap();
    let waiting = tokio::spawn(redlock.lock("k").wait(60 * SECOND).acquire());
    tokio::time::sleep(SECOND).await;
    fake.next_releases(vec![Fate::Refused(NodeErrorKind::Unreachable, false); 10_000]);
    drop(guard);
    tokio::time::sleep(SECOND).await;
    fake.store.remove("k");
    let freed = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert!(freed.elapsed() < SECOND, "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_a_release_found_is_told() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").acquire().await.unwrap();
    fake.store.remove("k");
    assert_eq!(guard.release().await.unwrap(), Released::Expired);

    let guard = redlock.lock("k").acquire().await.unwrap();
    fake.store.set("k", "thief", SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::Stolen);
    assert_eq!(fake.store.owner("k").as_deref(), Some("thief"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finished_is_not_failed_by_its_release() {
    let (redlock, fake) = fake();
    fake.next_releases([Fate::Refused(NodeErrorKind::NoPermission, true)]);
    assert_eq!(redlock.lock("k").run(async { 7 }).await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finished_after_its_lease_was_lost_keeps_its_result() {
    let (redlock, fake) = fake();
    let body = async {
        fake.store.remove("k");
        // One step that outlasts the lease: nothing can stop it.
        tokio::time::advance(60 * SECOND).await;
        7
    };
    // `advance` yields once, so the body is seen after its time, and stopped.
    let error = redlock.lock("k").run(body).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");

    let body = async {
        fake.store.remove("k");
        7
    };
    assert_eq!(redlock.lock("k").run(body).await, Ok(7));
}

#[test]
fn a_guard_can_be_dropped_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (redlock, fake) = fake();
    let guard = runtime.block_on(redlock.lock("k").acquire()).unwrap();
    drop(runtime);
    drop(guard);
    assert_eq!(fake.store.owner("k"), None);
}

/// A client of several nodes asks each of them in a task.
#[test]
fn a_guard_of_several_nodes_can_be_dropped_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let guard = runtime.block_on(redlock.lock("k").acquire()).unwrap();
    drop(runtime);
    drop(guard);
    let is_free = || nodes.iter().all(|node| node.store.owner("k").is_none());
    while !is_free() {
        std::thread::yield_now();
    }
}

/// A batch would leave the release out, and the caller may compute when the answer says so.
#[tokio::test(start_paused = true)]
async fn a_lock_that_others_compete_for_is_released_outside_of_batches() {
    let redlock = Server::new().client();
    let engine = redlock.engine();
    let (key, kind) = (LockKey::new("", "k").unwrap(), Kind::Exclusive);
    let queue = engine.local_queue(&key, kind);
    let (owner, expire) = (Owner::of_nobody("t"), Duration::from_secs(9));
    let confirmed = ConfirmedLease { sent: engine.clock().now(), lease: expire };
    let first = FencingToken::new(1).unwrap();
    let tokens = FencingTokens { first, last: first };
    let tenure = Tenure::new(Claim { key, owner, expire, kind }, confirmed, tokens);
    let task = ReleaseTask::new(engine, &tenure, tenure.server_end(), queue.another());
    assert!(task.request().may_join());
    queue.state().note_contention();
    assert!(!task.request().may_join());
}

/// The server stands still from before the renewal: the lease held to the end of the body, and has
/// run out when the release arrives.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_before_its_release_arrived_was_not_lost() {
    for thief in [None, Some("thief")] {
        let (redlock, fake) = fake();
        let guard = redlock.lock("k").expire(SECOND).acquire().await.unwrap();
        fake.next_renews(vec![Fate::LostRequest; 100]);
        fake.next_releases([Fate::Late(SECOND / 2)]);
        tokio::time::sleep(SECOND * 8 / 10).await;
        guard.check().unwrap();
        let released = tokio::spawn(guard.release());
        tokio::time::sleep(SECOND * 3 / 10).await;
        assert_eq!(fake.store.owner("k"), None, "it has run out");
        if let Some(thief) = thief {
            fake.store.set("k", thief, 60 * SECOND);
        }
        assert_eq!(released.await.unwrap().unwrap(), Released::Unknown);
    }
}

/// Within its lease, nobody else may have the key.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_gone_before_its_lease_ends_was_lost() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").expire(SECOND).acquire().await.unwrap();
    tokio::time::sleep(SECOND / 2).await;
    fake.store.remove("k");
    assert_eq!(guard.release().await.unwrap(), Released::Expired);
}
